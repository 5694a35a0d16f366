"""`ebbtide demo` with its page: a simulated cluster that goes on until it is stopped, and can be broken."""

from __future__ import annotations

import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager

from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.scopes import Scope, Token, digest_of, new_token
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.sight import Sight
from ebbtide.entrypoints.api.site import Fault, Site
from ebbtide.entrypoints.api.views import DEMO
from ebbtide.simulator.run.live import Live

HOST = "127.0.0.1"
SPEED = 60.0
PER_MINUTE = 6000
"""Requests of all tabs together: time goes fast here, and every tick is news to each of them."""
MORNING_SECONDS = 7 * 3600
DAY_SECONDS = 86_400
SAYS = "A simulated cluster at {speed:g} times the speed of the clock. Nothing outside of it is touched."


class Breaking:
    """What the page may break."""

    def __init__(self, live: Live, speed: float) -> None:
        self._live = live
        self.says = SAYS.format(speed=speed)
        self.faults = tuple(Fault(fault.id, fault.name, fault.says) for fault in live.faults)

    def strike(self, fault_id: str) -> str:
        return self._live.strike(fault_id)


def demo_site(live: Live, token: str, speed: float) -> Site:
    """Everything may be read without the token, and done with it."""
    return Site(
        store=live.ports.store,
        settings=live.settings,
        sight=Sight(live.look, live.stage.clock, seconds=1.0),
        clock=live.stage.clock,
        new_id=live.stage.new_id,
        scaling=live.scaling,
        tokens=(Token("demo", Scope.ADMIN, digest_of(token)),),
        open_reading=True,
        rate_per_minute=PER_MINUTE,
        kind=DEMO,
        demo=Breaking(live, speed),
    )


@contextmanager
def demo_served(
    seed: int, speed: float, port: int, rush_seconds: int = DAY_SECONDS
) -> Iterator[tuple[str, Live]]:
    """The address of its page, with a token that is valid for this run alone. The first day is rushed
    through, so there is a yesterday to look back on."""
    start = morning(time.time())
    live = Live(seed, start)
    token = new_token()
    site = demo_site(live, token, speed)
    stop = threading.Event()
    thread = threading.Thread(
        target=live.run, args=(stop, speed, start + rush_seconds), name="ebbtide-demo", daemon=True
    )
    with served(make_app(site), HOST, port) as at:
        thread.start()
        try:
            yield f"http://{HOST}:{at}/#/now?token={token}", live
        finally:
            stop.set()
            thread.join(10)


def morning(now: float) -> float:
    """Two days ago at seven, so the demo has a yesterday, and never runs into the future soon."""
    return now - now % DAY_SECONDS - 2 * DAY_SECONDS + MORNING_SECONDS


def open_browser(url: str) -> bool:
    """Whether one was found; on a server there is none, and the address is printed in any case."""
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
