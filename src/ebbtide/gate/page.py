"""The page that a browser sees while what it asked for wakes up.

One page without scripts and without any other request. It reloads by itself; the reload reaches the pods as
soon as they are ready.
"""

from __future__ import annotations

from html import escape

REFRESH_SECONDS = 3
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta http-equiv="refresh" content="{refresh}">
<title>{name} is waking up</title>
<style>
:root {{ color-scheme: light dark; --ink: #1b2733; --soft: #51606f; --paper: #f5f7f9; --card: #fff;
  --line: #d5dce3; --tide: #14708a; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e8edf2; --soft: #a5b3c0; --paper: #10161c;
  --card: #19222b; --line: #2d3a46; --tide: #58b8d3; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem;
  background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }}
main {{ width: 100%; max-width: 30rem; padding: 2rem; background: var(--card);
  border: 1px solid var(--line); border-radius: .75rem; }}
h1 {{ margin: 0 0 .5rem; font-size: 1.4rem; line-height: 1.3; overflow-wrap: anywhere; }}
p {{ margin: 0 0 1rem; }}
.soft {{ margin: 0; color: var(--soft); font-size: .9rem; }}
.bar {{ height: .5rem; margin: 0 0 1rem; border-radius: .25rem; background: var(--line); overflow: hidden; }}
.bar i {{ display: block; height: 100%; width: {share}%; border-radius: inherit; background: var(--tide); }}
.bar.open i {{ width: 35%; animation: tide 2.4s ease-in-out infinite alternate; }}
@keyframes tide {{ from {{ margin-left: 0; }} to {{ margin-left: 65%; }} }}
@media (prefers-reduced-motion: reduce) {{ .bar.open i {{ animation: none; }} }}
</style>
</head>
<body>
<main>
<h1>{name} is waking up</h1>
<p role="status">{says}</p>
<div class="bar{open}" aria-hidden="true"><i></i></div>
<p class="soft">It was asleep because nobody used it. This page reloads by itself.</p>
</main>
</body>
</html>
"""


def waiting_page(
    name: str, eta_seconds: int = 0, waited_seconds: int = 0, needs_node: bool | None = None, note: str = ""
) -> str:
    """`eta_seconds` 0: not known. `note` is shown instead of the time where something is in the way."""
    known = eta_seconds > 0 and not note
    share = round(100 * waited_seconds / (waited_seconds + eta_seconds)) if known else 0
    return _PAGE.format(
        name=escape(name),
        says=escape(note or _says(eta_seconds, needs_node)),
        share=min(max(share, 3), 97),
        open="" if known else " open",
        refresh=REFRESH_SECONDS,
    )


def _says(eta_seconds: int, needs_node: bool | None) -> str:
    when = f"Ready in about {in_words(eta_seconds)}." if eta_seconds else "It will be ready soon."
    return f"{when} A machine is started for it first." if needs_node else when


def in_words(seconds: int) -> str:
    """A duration for people: "about" stands before it."""
    minutes = round(seconds / 60)
    if seconds < 90:  # noqa: PLR2004 - up to a minute and a half, seconds say more
        return "1 second" if seconds == 1 else f"{seconds} seconds"
    return f"{minutes} minutes"
