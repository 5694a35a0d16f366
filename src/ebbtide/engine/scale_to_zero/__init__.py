"""The shell around policies: rounds of the idle loop, wakes, and the savings ledger."""
