"""Operations as pure state machines: `advance` returns the next state and the effects that it needs.

The shell writes the new value first, then performs the effects, then lets `absorb` take in how they
went. Everything else comes from the next observation.
"""
