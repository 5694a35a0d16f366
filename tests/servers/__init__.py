"""Real servers for the tests, each on a free loopback port or socket, with a folder of its own."""
