"""The simulated cluster and cloud on virtual time."""
