"""Nodes up and down: what to launch, what to remove, what may be drained, and every gate before it."""
