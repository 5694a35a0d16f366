"""Policies: whether a target is idle, when it wakes, how many replicas it should have, what that saved."""
