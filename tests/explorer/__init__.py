"""Tries every way in which a few things can go wrong in a small world, with the real engine and store.

    python -m tests.explorer                       # the bounds of every push
    python -m tests.explorer --deep                # the bounds of `make torture`
    python -m tests.explorer --scene NAME --path … # one path again, told step by step

A *state* is the world, the store and the position of every runner, taken after each call that changes
something. `canonical` says when two of them are the same; `search` goes through all of them within
the bounds of a scene; `sometimes` says what must have been met on the way.
"""
