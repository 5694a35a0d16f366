"""Who may listen where: beyond this machine only with tokens."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.config.api import ApiKeys, beyond_loopback
from ebbtide.config.problems import Problem


def check_api(keys: ApiKeys) -> Iterator[Problem]:
    if keys.listen != "off" and beyond_loopback(keys.listen) and not keys.tokens:
        says = (
            f"{keys.listen} can be reached from other machines, and api.tokens is empty; make a token with "
            "`ebbtide token new`, or listen on 127.0.0.1"
        )
        yield Problem(("api", "listen"), says, ("api",))
    if keys.notify_url and not keys.webhook_secrets_file:
        says = (
            "notifications are signed, and api.webhook_secrets_file is empty; name the file with the secret"
        )
        yield Problem(("api", "notify_url"), says, ("api",))
    names = [token.name for token in keys.tokens]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Problem(("api", "tokens", number, "name"), f"{name!r} is there already; give it another")
