"""Players of game servers over HTTP: counted, or not known, which keeps a server where it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.adapters.prometheus import PrometheusPlayers, PrometheusSource
from ebbtide.core.consolidation.game_servers import PLAN, PLAYERS, ServerCause, why_not_movable
from ebbtide.engine.ports import Ports, read_players
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.snapshot import ClusterView
from tests.builders import make_pod, make_settings
from tests.servers.promql import promql_server, vector
from tests.unit.engine.builders import Small

QUERY = "sum by (namespace, pod) (minecraft_players_online)"
GAME = {"namespace": "games", "pod": "lobby"}
SERVER = make_pod("lobby", 500, 2048, namespace="games", labels=((PLAN, "balanced"), (PLAYERS, "0")))


def read(*samples: tuple[dict[str, str], float, str]) -> object:
    with promql_server(lambda _: vector(*samples)) as url:
        players = PrometheusPlayers(PrometheusSource(url))
        try:
            return players.read_players(QUERY)
        finally:
            players.close()


def test_players_are_counted_by_pod() -> None:
    other = {"namespace": "games", "pod": "arena"}
    assert read((GAME, 1.0, "2"), (GAME | {"world": "nether"}, 1.0, "1"), (other, 1.0, "0.2")) == {
        "games/lobby": 3,
        "games/arena": 1,
    }
    assert read() == {}


@pytest.mark.parametrize("sample", [({"pod": "x"}, 1.0, "0"), (GAME, 1.0, "NaN"), (GAME, 1.0, "-1")])
def test_an_answer_that_may_be_anybodys_is_none(sample: tuple[dict[str, str], float, str]) -> None:
    assert read(sample) is None


def test_no_answer_is_none() -> None:
    with promql_server(lambda _: (500, "internal server error")) as url:
        assert PrometheusPlayers(PrometheusSource(url)).read_players(QUERY) is None


def test_what_cannot_be_counted_is_not_moved_whatever_the_annotation_says() -> None:
    asking = make_settings(consolidation=ConsolidationSettings(players_query=QUERY))
    view = ClusterView((), (SERVER, make_pod("web")))
    ports: Ports = Small().ports
    assert read_players(ports, make_settings(), view) == ()
    unknown = dict(read_players(ports, asking, view))
    assert list(unknown) == ["games/lobby"]
    stays = why_not_movable(SERVER, unknown)
    assert stays is not None
    assert stays.cause is ServerCause.PLAYERS_UNCOUNTED
    with promql_server(lambda _: vector((GAME, 1.0, "0"))) as url:
        counted = read_players(replace(ports, players=PrometheusPlayers(PrometheusSource(url))), asking, view)
    assert why_not_movable(SERVER, dict(counted)) is None
