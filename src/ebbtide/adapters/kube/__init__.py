"""Kubernetes: the cluster read into values and acted on through its API server."""
