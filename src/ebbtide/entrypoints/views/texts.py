"""Words that people and programs hand in, and that are shown again: in a log, in a terminal, on a page.

An escape sequence would let their author move the cursor of an operator, a line break would let them
add lines to a log, and a database takes neither NUL nor half of a surrogate pair.
"""

from __future__ import annotations

import unicodedata

TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of what follows, and so what a line seems to say."""
BREAKING = frozenset("\u2028\u2029")
STAND_IN = "\ufffd"


def why_not_plain(text: str) -> str:
    """What speaks against taking it in; empty for one line of ordinary characters."""
    found = next((each for each in text if _is_control(each)), "")
    if not found:
        return ""
    return f"must be one line without control characters; U+{ord(found):04X} is one"


def shown(text: str) -> str:
    """For a terminal: lines and tabs stay, every other control character is one that can be seen."""
    return "".join(STAND_IN if _is_control(each) and each not in "\n\t" else each for each in text)


def _is_control(letter: str) -> bool:
    if letter in TURNING or letter in BREAKING:
        return True
    return unicodedata.category(letter) in ("Cc", "Cs")
