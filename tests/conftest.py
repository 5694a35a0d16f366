"""In CI, Hypothesis draws the same examples every time: a run there says whether this change is good. On a
developer's machine it draws new ones, to find what nobody thought of."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
