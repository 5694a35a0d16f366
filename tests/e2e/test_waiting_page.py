"""The waiting page in a real browser: readable, without any other request, and gone by itself once awake."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, expect

from ebbtide.gate.admission import Address
from ebbtide.model.policy import GateProtocol, HttpRules
from tests.unit.gate.house import GateHouse, gate_house, make_route, served

HELLO = b"<!doctype html><title>shop</title><h1>Hello from the shop</h1>"


@dataclass
class Shop:
    port: int
    gate: GateHouse
    loop: asyncio.AbstractEventLoop
    pod: Address

    def wake(self) -> None:
        self.loop.call_soon_threadsafe(self.gate.ready, self.pod)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + HELLO)
    await writer.drain()
    writer.close()


@contextmanager
def sleeping_shop() -> Iterator[Shop]:
    """A gate that reads HTTP, in a thread of its own, with a server behind it that is not ready."""
    found: list[Shop] = []
    ready, stop = threading.Event(), asyncio.Event()
    route = make_route(protocol=GateProtocol.HTTP, http=HttpRules(waiting_page=True))

    async def run() -> None:
        async with gate_house(route) as gate, served(_serve) as pod:
            found.append(Shop(gate.port, gate, asyncio.get_running_loop(), pod))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="gate", daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield found[0]
    finally:
        found[0].loop.call_soon_threadsafe(stop.set)
        thread.join(20)


def violations_of(context: BrowserContext, address: str) -> list[str]:
    """Of the same page without its reload, which would take it away while it is examined."""
    text = context.request.get(address, headers={"Accept": "text/html"}).text()
    still = context.new_page()
    assert text.count('http-equiv="refresh"') == 1
    still.set_content(text.replace('http-equiv="refresh"', 'name="reload"'))
    return [each["id"] for each in Axe().run(still).response["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_sees_how_long_it_takes_and_then_the_page_it_asked_for(
    browser: Browser, scheme: str
) -> None:
    with sleeping_shop() as shop, browser.new_context(color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        address = f"http://127.0.0.1:{shop.port}/"
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 503
        expect(page.get_by_role("heading", name="web is waking up")).to_be_visible()
        # It reloads by itself: the time is known once the wake was answered.
        expect(page.get_by_role("status")).to_contain_text("Ready in about", timeout=60_000)
        assert violations_of(context, address) == []
        shop.wake()
        expect(page.get_by_role("heading", name="Hello from the shop")).to_be_visible(timeout=60_000)
        assert shop.gate.wakes
        assert {url for url in asked if not url.endswith("/favicon.ico")} == {address}
