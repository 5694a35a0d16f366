"""The configuration: YAML file plus environment, checked whole before anything else happens.

`load` is the entry point. It changes nothing and raises `ConfigError` with every problem at once.
"""

from __future__ import annotations

from ebbtide.config.load import Config, Effective, load

__all__ = ["Config", "Effective", "load"]
