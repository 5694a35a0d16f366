"""Ebbtide: a Kubernetes node autoscaler built for safe scale-down."""

__version__ = "0.1.0"
