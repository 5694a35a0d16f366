"""The shell around the core: observe, decide, record, act."""
