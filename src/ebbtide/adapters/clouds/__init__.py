"""Clouds where nodes are launched and terminated, their prices, and the notices they send."""
