"""Stories: one YAML file with a cluster, what happens to it, and what must or must not follow.

    story = read_story(Path("story.yaml"))      # `ConfigError` with lines where the file is wrong
    result = play(story)                        # the real engine on the simulated cluster
    print(result.to_json())

`schemas` and `event_schemas` are the keys, `parse` and `checks` read them, `build` makes the cluster,
`events` plays what happens, `runners` are the processes that tick, `judge` compares with what was expected,
`output` is the JSON.
"""

from __future__ import annotations

from ebbtide.simulator.story.parse import Story, parse_story, read_story
from ebbtide.simulator.story.play import play

__all__ = ["Story", "parse_story", "play", "read_story"]
