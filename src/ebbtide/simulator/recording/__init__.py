"""Recordings: what a cluster was asked for, in one compressed file that plays as a story.

`file` reads and writes `.ebb`, `trace` makes one from a CSV file, and `from_metrics` from
kube-state-metrics.
"""
