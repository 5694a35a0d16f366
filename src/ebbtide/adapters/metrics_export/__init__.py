"""Ebbtide's own metrics for Prometheus, and whether this process is alive and ready. Needs
prometheus-client."""
