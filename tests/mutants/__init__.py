"""Bugs planted on purpose, one guard removed each, to see that the tests would have caught them.

    python -m tests.mutants                    # all, with the table of who kills whom
    python -m tests.mutants --only NAME        # one
    python -m tests.mutants --quick            # the handful that every push plants

To add one, write a `Mutant` into `planted.py` (or a file that it imports):

    Mutant(
        "the minimum is not kept",             # what is no longer done
        "keeps_minimum",                       # the function; with class or module if that tells two apart:
                                               # "StoredLease.take", "gates.keeps_minimum"
        "len(left) < settings.min_workers",    # an expression or whole statements of that function
        "False",                               # what takes their place; "" removes statements
        ("explorer:scale-down",),              # who catches it: tried first
    )

File, formatting and comments do not matter: the function is found by its name, the code in it as syntax. A
bug whose code is not found exactly once fails the run.
"""
