"""A virtual cluster, cloud and clock that the real engine runs against.

`simulate.simulate` runs a story of `scenarios` by name. To play one of your own: build a `world.World`, put
it on a stage with `runner.stage_of` and let a `runner.Runner` tick; `faults` and `plans` make its calls
fail, `checker` says what it must not have done.

Everything is deterministic from a seed and no time comes from outside.
"""
