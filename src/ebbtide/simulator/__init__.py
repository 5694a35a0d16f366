"""A virtual cluster, cloud and clock that the real engine runs against.

`run.simulate.simulate` runs a scenario by name. To run your own: build a `world.world.World`, make a stage
with `run.runner.stage_of` and let a `run.runner.Runner` tick. `faults` makes calls fail, `checker` reports
what must never happen.

Everything is deterministic from a seed, and no time comes from outside.
"""
