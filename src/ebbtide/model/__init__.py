"""Frozen values that everything else speaks in. Nothing here reads, writes or decides."""
