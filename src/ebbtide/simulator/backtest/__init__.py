"""Backtests: a recording played with other settings, and what each would have cost.

`candidates` says what is tried, `runs` plays one and keeps the result, `compare` puts them next to each other
and next to what was recorded.
"""
