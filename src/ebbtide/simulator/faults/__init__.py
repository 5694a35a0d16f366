"""Faults: calls that fail, disturbances by people and other programs, and lost machines."""
