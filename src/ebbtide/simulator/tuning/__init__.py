"""Tuning: a search for better settings on a recording. It proposes, and applies nothing.

`space` says which settings are searched, `search` tries some of them, `choose` takes the knee of the front
and drops what is worth nothing, `tune` does it all and plays the rest on what was held out.
"""
