"""Recordings: what a cluster was asked for, in one compressed file that plays as a story.

`file` reads and writes `.ebb`, `trace` makes one of a CSV file, `own_log` of Ebbtide's own log, `scope` says
what of a configuration goes into it, `anonymous` replaces names.
"""
