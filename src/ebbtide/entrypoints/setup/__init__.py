"""The first day: a configuration from the nodes that are there, and the access that it needs."""
