"""Which nodes to empty so the cluster costs less: existing nodes with what they hold, a price for
moving, and new nodes where they are cheaper.

`look` judges what was seen and `build` makes a `scene` of it: what stands where, what may move. `eliminate`
and `replace` make drafts of a rearrangement, `sweep` the frontier of them, `choose` picks on it.
"""
