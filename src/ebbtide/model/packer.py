"""What plans are packed with. It changes the answer, so it is an input of every decision."""

from __future__ import annotations

from enum import StrEnum


class Packer(StrEnum):
    PLAIN = "plain"
    """Plain Python alone."""
    HIGHS = "highs"
    """numpy and HiGHS, where there is enough to pack that they pay."""
