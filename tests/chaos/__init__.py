"""Runners as processes of their own on a real database, killed, frozen and cut off at random moments.

    python -m tests.chaos --seconds 600

The simulated cluster and cloud live in one more process, which nobody kills. At the end the log, the
record and the world are read and must agree.
"""
