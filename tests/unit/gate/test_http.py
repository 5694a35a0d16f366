"""Layer 7: browsers get a page, probes wake nobody, everybody else is held and arrives."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ebbtide.errors import Retryable
from ebbtide.gate.admission import GateLimits, Route
from ebbtide.gate.knocking import Eta
from ebbtide.gate.page import waiting_page
from ebbtide.model.policy import GateProtocol, HttpRules, NeverWake, WakeHeader
from tests.unit.gate.house import GateHouse, echo, gate_house, make_route, served, until

BROWSER = "Accept: text/html,application/xhtml+xml;q=0.9\r\nUser-Agent: Mozilla/5.0\r\n"


def http_route(hold_seconds: float = 30.0, sources: tuple[str, ...] = (), **rules: Any) -> Route:
    return make_route(
        hold_seconds, protocol=GateProtocol.HTTP, sources=sources, http=HttpRules(**rules), max_held=10
    )


def request(line: str = "GET /", headers: str = "") -> bytes:
    return f"{line} HTTP/1.1\r\nHost: shop.example.com\r\n{headers}\r\n".encode()


async def ask(gate: GateHouse, said: bytes) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await gate.connect()
    writer.write(said)
    async with asyncio.timeout(60):
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    return int(first.split()[1]), headers, body


def test_a_browser_gets_a_page_that_reloads_and_shows_the_time_and_the_policy_wakes() -> None:
    async def story() -> None:
        async with gate_house(http_route(waiting_page=True)) as gate:
            status, headers, body = await ask(gate, request(headers=BROWSER))
            await gate.woken()
            assert (status, headers["content-type"]) == (503, "text/html; charset=utf-8")
            assert headers["cache-control"] == "no-store"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert b'http-equiv="refresh"' in body
            assert gate.ended("answered") == 1
            await until(lambda: gate.counted("wakes_total", policy="web") > 0)
            _, headers, body = await ask(gate, request(headers=BROWSER))
            assert b"Ready in about 7 seconds." in body
            assert headers["retry-after"] == "7"

    asyncio.run(story())


def test_what_history_says_is_on_the_first_page_already() -> None:
    async def story() -> None:
        def expects(policy_id: str) -> Eta:
            return Eta(95, needs_node=True)

        async with gate_house(http_route(waiting_page=True), expects=expects) as gate:
            _, _, body = await ask(gate, request(headers=BROWSER))
            assert b"Ready in about 2 minutes. A machine is started for it first." in body

    asyncio.run(story())


def test_a_page_says_where_the_wake_could_not_be_recorded() -> None:
    async def story() -> None:
        async def wake() -> float:
            raise Retryable("the store is down")

        async with gate_house(http_route(waiting_page=True), wake=wake) as gate:
            await ask(gate, request(headers=BROWSER))
            await until(lambda: gate.counted("wake_failures_total", policy="web") > 0)
            _, _, body = await ask(gate, request(headers=BROWSER))
            assert b"could not be recorded yet" in body

    asyncio.run(story())


def test_reloads_join_the_wake_in_progress_and_use_up_no_wakes() -> None:
    async def story() -> None:
        route = http_route(waiting_page=True)
        async with gate_house(route, limits=GateLimits(wakes_per_minute=1)) as gate:
            await ask(gate, request(headers=BROWSER))
            await until(lambda: gate.counted("wakes_total", policy="web") > 0)
            for _ in range(3):
                _, headers, _ = await ask(gate, request(headers=BROWSER))
                assert headers["content-type"].startswith("text/html")
            assert gate.ended("refused") == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    "said",
    [
        request("POST /", BROWSER + "Content-Length: 2\r\n") + b"ab",
        request("GET /", "Accept: application/json\r\n"),
        request("GET /", BROWSER + "Upgrade: websocket\r\nConnection: Upgrade\r\n"),
        request("GET /", BROWSER + "Sec-Fetch-Mode: cors\r\n"),
    ],
)
def test_whatever_is_no_browser_is_held_and_arrives_byte_for_byte(said: bytes) -> None:
    async def story() -> None:
        async with gate_house(http_route(waiting_page=True)) as gate, served(echo) as pod:
            reader, writer = await gate.connect()
            writer.write(said[:20])
            await gate.held(1)
            assert not gate.wakes, "what a request asks for is not known before its head is whole"
            writer.write(said[20:])
            await gate.woken()
            gate.ready(pod)
            assert await reader.readexactly(len(said)) == said
            writer.write(b"more")
            assert await reader.readexactly(4) == b"more"
            assert gate.ended("released") == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({}, request("GET /healthz")),
        ({}, request("GET /.git/config")),
        ({}, request("GET /", "User-Agent: kube-probe/1.37\r\n")),
        ({}, request("GET /", "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1)\r\n")),
        ({}, request("HEAD /")),
        ({"never_wake": NeverWake(hosts=("*.example.com",))}, request()),
        ({"never_wake": NeverWake(hosts=("shop.example.com",))}, request()),
        ({"never_wake": NeverWake(paths=("/api/*",))}, request("GET /api/x?y=1")),
        ({"never_wake": NeverWake(agents=("CURL",))}, request(headers="User-Agent: curl/8\r\n")),
        ({"wake_header": WakeHeader("X-Wake", "please")}, request(headers="X-Wake: now\r\n")),
        ({"wake_header": WakeHeader("X-Wake")}, request()),
        ({"sources": ("10.0.0.0/8",), "trusted_proxies": ("127.0.0.0/8",)}, request()),
    ],
)
def test_what_never_wakes_is_answered_at_once_and_wakes_nobody(rules: dict[str, Any], said: bytes) -> None:
    async def story() -> None:
        async with gate_house(http_route(**rules)) as gate:
            status, headers, body = await ask(gate, said)
            assert (status, headers["content-type"]) == (503, "application/problem+json")
            assert "retry-after" not in headers, "nobody knows when it will be awake"
            assert body == b"" if said.startswith(b"HEAD") else "asleep" in json.loads(body)["detail"]
            assert not gate.wakes
            assert gate.ended("answered") == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"never_wake": NeverWake(known=False, requests=())}, request("HEAD /")),
        ({"never_wake": NeverWake(known=False)}, request("GET /healthz", "User-Agent: kube-probe\r\n")),
        ({"never_wake": NeverWake(hosts=("*.shop.example.com",))}, request()),
        ({"wake_header": WakeHeader("X-Wake", "please")}, request(headers="x-wake: please\r\n")),
        (
            {"sources": ("10.0.0.0/8",), "trusted_proxies": ("127.0.0.0/8",)},
            request(headers="X-Forwarded-For: 192.0.2.1, 10.1.2.3, 127.0.0.9\r\n"),
        ),
        ({}, request("OPTIONS *")),
        ({}, request("CONNECT shop:443")),
        ({}, b"\x16\x03\x01\x02\x00\x01"),
        ({}, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ({}, b"PO\x01not http"),
    ],
)
def test_what_no_rule_forbids_wakes(rules: dict[str, Any], said: bytes) -> None:
    async def story() -> None:
        async with gate_house(http_route(**rules)) as gate:
            _, writer = await gate.connect()
            writer.write(said)
            await gate.woken()
            await gate.held(1)
            assert gate.wakes

    asyncio.run(story())


def test_what_cannot_be_read_does_not_wake_where_a_header_is_asked_for() -> None:
    async def story() -> None:
        async with gate_house(http_route(wake_header=WakeHeader("X-Wake"))) as gate:
            reader, writer = await gate.connect()
            writer.write(b"\x16\x03\x01\x02\x00\x01")
            with pytest.raises(ConnectionResetError):
                await reader.read(-1)
            assert gate.counted("refused_total", policy="web", reason="rule") == 1
            assert not gate.wakes

    asyncio.run(story())


def test_a_request_that_makes_no_sense_is_400_and_wakes_nobody() -> None:
    async def story() -> None:
        async with gate_house(http_route()) as gate:
            status, _, _ = await ask(gate, b"GET / HTTP/1.1\r\nno colon\r\n\r\n")
            assert (status, gate.wakes) == (400, [])

    asyncio.run(story())


def test_a_head_longer_than_what_is_read_is_judged_by_its_beginning_and_arrives_whole() -> None:
    said = request(headers=f"Cookie: {'c' * 40_000}\r\n")

    async def story() -> None:
        async with gate_house(http_route()) as gate, served(echo) as pod:
            reader, writer = await gate.connect()
            writer.write(said)
            await gate.woken()
            gate.ready(pod)
            assert await reader.readexactly(len(said)) == said

    asyncio.run(story())


def test_a_long_head_that_came_before_its_port_was_known_is_read_on() -> None:
    said = request(headers=f"Cookie: {'c' * 9_000}\r\n")

    async def story() -> None:
        asked: list[bool] = []
        async with gate_house(http_route(), lost=lambda: asked.append(True)) as gate:
            gate.routes.replace({gate.port: [gate.route, gate.route]})
            _, writer = await gate.connect()
            writer.write(said)
            await until(lambda: bool(asked))
            gate.routes.replace({gate.port: [gate.route]})
            gate.keeper.routes_changed()
            await gate.woken()

    asyncio.run(story())


def test_at_the_deadline_a_request_gets_503_with_the_time_to_come_again() -> None:
    async def story() -> None:
        async with gate_house(http_route(hold_seconds=0.3)) as gate:
            status, headers, body = await ask(gate, request("GET /api"))
            assert (status, headers["retry-after"]) == (503, "7")
            assert json.loads(body)["retry_after_seconds"] == 7
            assert gate.ended("timed_out") == 1

    asyncio.run(story())


def test_a_client_that_never_ends_its_head_loses_its_place_and_wakes_nobody() -> None:
    async def story() -> None:
        async with gate_house(http_route(), limits=GateLimits(head_seconds=0.2)) as gate:
            status, _, _ = await ask(gate, b"GET / HTTP/1.1\r\nHost: sh")
            silent, _writer = await gate.connect()
            with pytest.raises(ConnectionResetError):
                await silent.read(-1)
            assert status == 408
            assert gate.counted("refused_total", policy="web", reason="slow") == 2
            assert (gate.keeper.held, gate.wakes) == (0, [])

    asyncio.run(story())


def test_over_the_limit_http_is_told_at_once() -> None:
    async def story() -> None:
        async with gate_house(http_route()) as gate:
            for _ in range(10):
                await gate.connect()
            await gate.held(10)
            status, headers, _ = await ask(gate, request())
            assert status == 503
            assert headers["retry-after"]
            assert gate.counted("refused_total", policy="web", reason="policy_full") == 1

    asyncio.run(story())


def test_a_name_cannot_bring_markup_into_the_page() -> None:
    page = waiting_page("<script>x</script>")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
