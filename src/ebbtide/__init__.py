"""Ebbtide: an autoscaler for Kubernetes (K3s) clusters."""

__version__ = "0.1.0"
