"""Keys that `ebbtide init` could not know and a person has not filled in yet.

The file is valid with them, so it can be checked and looked at. What acts refuses it: a launch with such a
value would only fail later, in the cloud.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebbtide.errors import ConfigError

if TYPE_CHECKING:
    from ebbtide.config.load import Config

FILL_IN = "fill-me-in"


def unfilled(config: Config) -> tuple[str, ...]:
    return tuple(key.key for key in config.effective if FILL_IN in str(key.value))


def refuse_unfilled(config: Config) -> None:
    keys = unfilled(config)
    if keys:
        are = "is" if len(keys) == 1 else "are"
        raise ConfigError(
            f"{', '.join(keys)} {are} still to be filled in ({config.source or 'the environment'} says "
            f"{FILL_IN}); nothing was touched. Set it, then run `ebbtide doctor`."
        )
