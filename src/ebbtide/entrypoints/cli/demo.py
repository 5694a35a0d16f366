"""`ebbtide demo`: a simulated day at speed, as a live picture, or as plain lines without a terminal."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.entrypoints.cli.simulation import fault_names
from ebbtide.entrypoints.cli.stopping import set_by_signals
from ebbtide.entrypoints.views.terminal import console, write_lines
from ebbtide.extras import how_to_add

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from ebbtide.entrypoints.views.simulations import DemoTold
    from ebbtide.simulator.run.frames import Frame

SPEED = 2400.0
SLOWER = 12
"""How much slower time passes while something is in progress, so it can be seen."""
FRAMES_PER_SECOND = 12.0
REMEMBERED = 200


def demo(  # noqa: PLR0913, PLR0917 - the options of a command
    scenario: Annotated[
        str, typer.Option(help="A scenario of `ebbtide simulate`. Default: a day made for the demo.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same story.")] = 1,
    speed: Annotated[
        float | None,
        typer.Option(
            min=0.0, help=f"Simulated seconds per real second (default {SPEED:g}); 0 does not wait."
        ),
    ] = None,
    faults: Annotated[str, typer.Option(help="More faults to inject, separated by commas.")] = "",
    terminal: Annotated[
        bool, typer.Option("--terminal", help="One day in the terminal instead of the live page.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 picks a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser, where there is one.")] = True,
) -> None:
    """Watch a simulated cluster grow, shrink, lose spot nodes and survive crashes of its autoscaler.

    As a live page on this machine; with --terminal, --scenario or --faults in the terminal.
    """
    if not (terminal or scenario or faults):
        _show_page(seed, speed, port, browser)
        return
    from ebbtide.entrypoints.views.simulations import result_lines
    from ebbtide.simulator.faults.catalogue import check_names
    from ebbtide.simulator.run import scenarios
    from ebbtide.simulator.run.scenarios import build
    from ebbtide.simulator.run.simulate import Simulation

    more = fault_names(faults)
    check_names(more)
    told = build(scenario, seed) if scenario else scenarios.tell(seed)
    out = console()
    pace = (SPEED if out.is_terminal else 0.0) if speed is None else speed
    show = LiveView(out, told.name, pace) if out.is_terminal else PlainView(out, pace)
    try:
        with show:
            result = Simulation(told, more, show.frame).run()
    except KeyboardInterrupt:
        write_lines([f"Stopped at {show.reached}; nothing outside the simulation was touched."])
        return
    write_lines(result_lines(result))


def _show_page(seed: int, speed: float | None, port: int, browser: bool) -> None:
    try:
        from ebbtide.entrypoints.cli.demo_page import SPEED as PAGE_SPEED
        from ebbtide.entrypoints.cli.demo_page import demo_served, open_browser
    except ModuleNotFoundError as error:
        from ebbtide.errors import Usage

        if (error.name or "").startswith("ebbtide"):
            raise
        raise Usage(
            f"the page needs {error.name}, which is not installed; nothing was touched. "
            f"Run: {how_to_add('api')}\nOr take the terminal: ebbtide demo --terminal"
        ) from error

    stop = threading.Event()
    write_lines(["Starting a simulated cluster ..."])
    served = demo_served(seed, PAGE_SPEED if speed is None else speed, port)
    with set_by_signals(stop), served as (url, _):
        if browser:
            open_browser(url)
        write_lines([f"The page: {url}", "Ctrl-C stops it. Nothing outside the simulation is touched."])
        stop.wait()
    write_lines(["Stopped; nothing is left behind."])


class PlainView:
    """One line for each thing that happens."""

    def __init__(self, out: Console, pace: float) -> None:
        self._out = out
        self._pace = Pace(pace)
        self.reached = "the beginning"

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def frame(self, frame: Frame) -> None:
        from ebbtide.entrypoints.views.simulations import told_line, where_it_stands

        self.reached = where_it_stands(frame)
        for told in news(frame):
            self._out.print(told_line(told))
        self._pace.wait(frame)


class LiveView:
    """The picture, drawn again several times a second, however fast time passes."""

    def __init__(self, out: Console, title: str, pace: float) -> None:
        from rich.live import Live

        self._title = title
        self._pace = Pace(pace)
        self._told: list[DemoTold] = []
        self._zones: tuple[str, ...] = ()
        self._drawn_at = 0.0
        self._live: Live = Live(console=out, auto_refresh=False, screen=True)
        self.reached = "the beginning"

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def frame(self, frame: Frame) -> None:
        from ebbtide.entrypoints.views.simulations import Size, screen, where_it_stands

        self.reached = where_it_stands(frame)
        self._told = [*self._told, *news(frame)][-REMEMBERED:]
        self._zones = tuple(sorted({*self._zones, *(node.zone for node in frame.nodes)}))
        if time.monotonic() - self._drawn_at >= 1 / FRAMES_PER_SECOND:
            self._drawn_at = time.monotonic()
            size = Size(*self._live.console.size)
            title = self._title
            self._live.update(screen(frame, title, self._told, self._zones, size), refresh=True)
        self._pace.wait(frame)


class Pace:
    """Lets simulated time pass at a speed, slower while something happens; at 0 it never waits."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._before: float | None = None

    def wait(self, frame: Frame) -> None:
        passed = frame.at - (frame.at if self._before is None else self._before)
        self._before = frame.at
        if self._speed:
            busy = bool(frame.operation or news(frame))
            time.sleep(passed / self._speed * (SLOWER if busy else 1))


def news(frame: Frame) -> list[DemoTold]:
    """What a frame tells that is worth a line: faults first, then what the tick did."""
    from ebbtide.entrypoints.views.simulations import DemoTold

    told = [DemoTold(frame.at, event, fault=True) for event in frame.events]
    if frame.says and not frame.faulty and not frame.quiet:
        told.append(DemoTold(frame.at, frame.says))
    return told
