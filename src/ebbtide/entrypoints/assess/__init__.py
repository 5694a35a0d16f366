"""`ebbtide assess`: what a cluster costs and wastes."""
