"""Bugs planted on purpose, one guard removed each, to see that the tests would have caught them.

    python -m tests.mutants                    # all, with the table of who kills whom
    python -m tests.mutants --only NAME        # one
    python -m tests.mutants --quick            # the handful that every push plants

Each replaces a piece of source text in a copy of the package; what is not there exactly once fails loudly.
"""
