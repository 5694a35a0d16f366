"""A virtual cluster, cloud and clock that the real engine runs against.

Start with `scenarios.build` for a whole world, `ports.outside_of` for what the engine needs of it and
`simulate.simulate` to run it. Everything is deterministic from a seed and no time comes from outside.
"""
