"""Fewer and cheaper nodes: whether to repack, which nodes to empty, and where their pods go.

`evaluate` decides whether to consolidate now and runs the phases of the policy. `look` judges each node and
turns them into a `scene`. `eliminate` and `sweep` make `drafts` and compute the frontier; `choose` picks one
and checks it against the fit rules. `pace` limits how often, `emptied_nodes` follows what was emptied.
"""
