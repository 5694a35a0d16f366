"""Nodes up and down: what to launch, what to remove, what may be drained, and the gates that a removal must
pass."""
