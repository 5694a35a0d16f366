"""The JSON schema of a story, for editors: made from the same shapes that the parser reads."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from ebbtide.config.schema import Document
from ebbtide.simulator.story.event_schemas import EventKeys
from ebbtide.simulator.story.schemas import StoryKeys

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def story_schema() -> dict[str, Any]:
    """`settings` has the keys of ebbtide.yaml, none of them required."""
    _, both = models_json_schema([(StoryKeys, "validation"), (Document, "validation")])
    definitions = both["$defs"]
    story = definitions.pop(StoryKeys.__name__)
    for shape in (story, definitions[EventKeys.__name__]):
        said = shape["properties"]["settings"]["description"]
        shape["properties"]["settings"] = {"$ref": f"#/$defs/{Document.__name__}", "description": said}
    return {"$schema": DRAFT, **story, "$defs": definitions}


def schema_text() -> str:
    return json.dumps(story_schema(), indent=2, ensure_ascii=False)
