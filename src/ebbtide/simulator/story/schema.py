"""The JSON schema of a story, for editors: made from the same shapes that the parser reads."""

from __future__ import annotations

import json
from typing import Any

from ebbtide.config.schema import Document
from ebbtide.simulator.story.shapes import StoryKeys

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def story_schema() -> dict[str, Any]:
    """`settings` has the keys of ebbtide.yaml, none of them required."""
    schema = StoryKeys.model_json_schema(mode="validation")
    settings = Document.model_json_schema(mode="validation")
    definitions = {**settings.pop("$defs", {}), **schema.pop("$defs", {})}
    definitions["Settings"] = settings
    for shape in (schema, definitions["EventKeys"]):
        shape["properties"]["settings"] = {
            "$ref": "#/$defs/Settings",
            "description": shape["properties"]["settings"]["description"],
        }
    return {"$schema": DRAFT, **schema, "$defs": dict(sorted(definitions.items()))}


def schema_text() -> str:
    return json.dumps(story_schema(), indent=2, ensure_ascii=False)
