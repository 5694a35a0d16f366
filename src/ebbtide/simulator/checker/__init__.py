"""Watches what an autoscaler does to a simulated world and reports what it must never do."""
