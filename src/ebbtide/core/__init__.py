"""Deciding and operating, without any effect: no I/O, no clock, no chance, no logging."""
