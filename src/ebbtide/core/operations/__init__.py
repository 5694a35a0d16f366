"""Operations as machines without effects: `advance` says what is next and what to ask the world for.

The shell writes the new value first, then performs the effects, then lets `absorb` take in how they
went. Everything else is learned by looking again.
"""
