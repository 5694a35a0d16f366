"""`ebbtide demo` with its page: a simulated cluster that continues until it is stopped, and can be broken."""

from __future__ import annotations

import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager

from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.site import (
    Fault,
    Scope,
    Sight,
    Site,
    SituationLine,
    Survived,
    Token,
    digest_of,
    new_token,
)
from ebbtide.entrypoints.api.views import DEMO
from ebbtide.simulator.run.history import read_history, remember, start_before
from ebbtide.simulator.run.live import Live
from ebbtide.simulator.run.replicas import Replicas
from ebbtide.simulator.run.scenes import shop_scene

HOST = "127.0.0.1"
SPEED = 60.0
SETTLING_SECONDS = 3600
PER_MINUTE = 6000
"""Requests of all tabs together: time goes fast here, and every tick is news to each of them."""
SAYS = "A simulated cluster at {speed:g} times the speed of the clock. Nothing outside of it is touched."


class Breaking:
    """What the page may break."""

    def __init__(self, live: Live, speed: float) -> None:
        self._live = live
        self._speed = speed
        self.says = SAYS.format(speed=speed)
        self.faults = tuple(Fault(fault.id, fault.name, fault.says) for fault in live.faults)

    def strike(self, fault_id: str) -> str:
        return self._live.strike(fault_id)

    def speed(self) -> float:
        return self._live.pace(self._speed)

    def survived(self) -> Survived | None:
        found = self._live.situation
        if found is None:
            return None
        lines = tuple(SituationLine(line.says, line.at) for line in found.lines)
        ended_at = int(found.ended_at)
        return Survived(found.fault_id, found.name, found.explains, int(found.began_at), ended_at, lines)


def demo_site(live: Live, token: str, speed: float) -> Site:
    """Reading needs no token; changes need it."""
    return Site(
        store=live.ports.store,
        settings=live.settings,
        sight=Sight(live.look, live.stage.clock, seconds=1.0, read_use=live.read_use),
        clock=live.stage.clock,
        new_id=live.stage.new_id,
        scaling=live.scaling,
        tokens=(Token("demo", Scope.ADMIN, digest_of(token)),),
        open_reading=True,
        rate_per_minute=PER_MINUTE,
        kind=DEMO,
        demo=Breaking(live, speed),
    )


def demo_live(seed: int, now: float, replicas: Replicas | None = None) -> Live:
    """The demo's cluster, with a month behind it."""
    past = read_history()
    start = start_before(past, now)
    live = Live(seed, start, shop_scene(), replicas)
    remember(past, live.ports.store, live.scaling, start)
    return live


@contextmanager
def demo_served(seed: int, speed: float, port: int) -> Iterator[tuple[str, Live]]:
    """The address of its page, with a token that is valid for this run alone. Two processes run the cluster.
    Its first hour is rushed through: what nobody uses is asleep by then."""
    token = new_token()
    stop = threading.Event()
    with Replicas() as replicas:
        live = demo_live(seed, time.time(), replicas)
        site = demo_site(live, token, speed)
        with running(live, stop, speed), served(make_app(site), HOST, port) as at:
            yield f"http://{HOST}:{at}/#/now?token={token}", live


@contextmanager
def running(live: Live, stop: threading.Event, speed: float) -> Iterator[None]:
    settled = live.stage.clock.now() + SETTLING_SECONDS
    thread = threading.Thread(target=live.run, args=(stop, speed, settled), name="ebbtide-demo", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def open_browser(url: str) -> bool:
    """Whether one was found; on a server there is none, and the address is printed in any case."""
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
