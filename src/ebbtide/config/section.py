"""The common ground of all parts of the configuration: strict types, no unknown keys, no changes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
