"""What this process knows and must not say: secrets are remembered when they are read, and struck out of all
that is told.

A server that refuses a request may quote it, token and all; its words go into errors, and errors into the
log, the record, Events and pages. So every error of Ebbtide is redacted when it becomes text, and whatever
else repeats the words of others asks here.
"""

from __future__ import annotations

import base64
from urllib.parse import quote, quote_plus, unquote, urlsplit

SHORTEST = 8
"""What is shorter is not struck out: it would be found in ordinary words, as `secret` is."""
STRUCK = "***"
_known: dict[str, None] = {}


def keep(secret: str) -> str:
    """Remember it, in the forms in which it may come back; it is handed through."""
    if len(secret) >= SHORTEST and secret not in _known:
        for form in _forms(secret):
            _known[form] = None
    return secret


def keep_password_of(url: str) -> None:
    """The password in a URL, if it has one."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return
    if password:
        keep(password)
        keep(unquote(password))


def redact(text: str) -> str:
    for form in tuple(_known):
        if form in text:
            text = text.replace(form, STRUCK)
    return text


def _forms(secret: str) -> list[str]:
    """Longest first. Of base64 only what does not depend on its neighbours: three shifts, less the ends."""
    raw = secret.encode()
    shifted = [base64.b64encode(b"\0" * shift + raw).decode() for shift in range(3)]
    inner = [text[(0, 2, 3)[shift] : -4] for shift, text in enumerate(shifted)]
    found = {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), *shifted[:1]}
    found |= {each for each in inner if len(each) >= SHORTEST}
    return sorted(found, key=len, reverse=True)
