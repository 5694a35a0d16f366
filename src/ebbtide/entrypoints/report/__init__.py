"""`ebbtide report`: what happened in a period, from the log and the ledger."""
