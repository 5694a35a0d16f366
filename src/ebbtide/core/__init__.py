"""Decisions and state machines as pure functions: no I/O, no clock, no randomness, no logging."""
