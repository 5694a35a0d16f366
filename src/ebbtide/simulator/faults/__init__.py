"""Faults: calls that fail, environments that misbehave, and machines that are lost."""
