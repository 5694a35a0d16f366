"""Running the real engine against a simulated world."""
