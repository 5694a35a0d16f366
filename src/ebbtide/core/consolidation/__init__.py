"""Fewer and cheaper nodes: whether to repack, which nodes to empty, and where their pods go.

`strategy` decides whether to consolidate now and `evaluate` runs the phases of the policy. `look` judges what
was seen and `build` makes a `scene` of it. `eliminate` and `replace` make `drafts`, `sweep` computes the
frontier, `choose` picks from it and `validate` checks the pick by the fit rules alone.
"""
