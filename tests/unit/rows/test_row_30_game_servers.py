"""Row 30: who may be moved holds for every voluntary eviction; only an interruption evicts regardless."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.consolidation.game_servers import PLAN, PLAYERS, STATUS, UNKNOWN, ServerCause, tier_of
from ebbtide.core.nodes.drain import Disruptions, DrainReason, Treatment, judge
from ebbtide.core.nodes.targets import choose_targets
from ebbtide.model.check import NodeCause
from ebbtide.model.effect import Evict
from ebbtide.model.operation import RemovalCause, RemovalState, SpotKind
from ebbtide.model.pod import Pod
from tests.builders import (
    NOW,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_settings,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import advance_removal, cordoned, fleet, make_situation, with_pods

SETTINGS = make_settings()
DRAINING = make_removal("a1", state=RemovalState.DRAINING, attempts=1, drain_deadline=NOW + 300)


def server(memory_mib: int = 2048, **says: str) -> Pod:
    keys = {"plan": PLAN, "players": PLAYERS, "status": STATUS}
    annotations = tuple(sorted((keys[name], value) for name, value in says.items()))
    return make_pod(
        "mc-0", 500, memory_mib, node_name="a1", controller="StatefulSet", annotations=annotations
    )


FREE = server(plan="payperplay", players="0")


@pytest.mark.parametrize(
    ("pod", "cause"),
    [
        (FREE, None),
        (server(plan="balanced", players="0"), None),
        (server(8192, plan="balanced", players="0"), None),
        (make_pod("web", 500, 60_000, node_name="a1"), None),
        (server(plan="payperplay", players="20"), ServerCause.PLAYERS),
        (server(plan="balanced", players="1"), ServerCause.PLAYERS),
        (server(plan="reserved", players="0"), ServerCause.PLAN),
        (server(plan="payperplay"), ServerCause.PLAYERS_UNSAID),
        (server(plan="payperplay", players="0", status="starting"), ServerCause.STATUS),
        (server(plan="payperplay", players="0", status="stopping"), ServerCause.STATUS),
        (server(16384, plan="payperplay", players="0"), ServerCause.TIER),
        (server(32768, plan="payperplay", players="0"), ServerCause.TIER),
        (server(3000, plan="payperplay", players="0"), ServerCause.TIER),
    ],
)
def test_every_drain_asks_the_rules_of_consolidation_and_names_the_rule(
    pod: Pod, cause: ServerCause | None
) -> None:
    judgement = judge(pod, Disruptions(()), SETTINGS, {})
    assert (judgement.treatment is Treatment.EVICT) is (cause is None)
    if cause is not None:
        assert (judgement.treatment, judgement.reason) == (Treatment.BLOCK, DrainReason.GAME_SERVER)
        assert judgement.about == cause
    assert judge(pod, Disruptions(()), SETTINGS, None).treatment is Treatment.EVICT, "an interruption"


def test_players_that_cannot_be_counted_keep_a_server_where_it_is() -> None:
    assert judge(FREE, Disruptions(()), SETTINGS, {"default/mc-0": UNKNOWN}).treatment is Treatment.BLOCK
    assert judge(FREE, Disruptions(()), SETTINGS, {"default/mc-0": 0}).treatment is Treatment.EVICT


def test_a_node_with_a_server_that_is_played_on_is_not_chosen_and_the_rule_is_said() -> None:
    pods = [server(plan="payperplay", players="20")]
    removals, refusals = choose_targets(
        make_snapshot(make_nodes("a1", "a2"), pods), make_record(), make_settings(), NOW, 2
    )
    assert [removal.node_name for removal in removals] == ["a2"]
    assert [(r.cause, r.about) for r in refusals] == [(NodeCause.POD_BLOCKS, "default/mc-0")]


def test_a_player_that_joins_in_the_middle_of_a_drain_stops_it() -> None:
    seen = with_pods(fleet(cordoned()), FREE)
    after, effects = advance_removal(DRAINING, make_situation(seen))
    assert [type(effect) for effect in effects] == [Evict]
    joined = replace(seen, players=(("default/mc-0", 1),))
    after, effects = advance_removal(after, make_situation(joined))
    assert (after.state, effects) == (RemovalState.PLANNED, ())
    assert (after.why, after.about) == (RemovalCause.POD_BLOCKS, "default/mc-0")


@pytest.mark.parametrize(("kind", "evicted"), [(SpotKind.INTERRUPTION, 1), (SpotKind.REBALANCE, 0)])
def test_only_an_interruption_evicts_regardless(kind: SpotKind, evicted: int) -> None:
    seen = with_pods(fleet(cordoned(operation_id="spot:i-a1")), server(plan="reserved", players="20"))
    record = make_record(spots=(make_spot("a1", kind=kind),))
    _, effects = advance_removal(DRAINING, make_situation(seen, record=record), "spot:i-a1")
    assert len(effects) == evicted


@pytest.mark.parametrize(
    ("mib", "tier"),
    [
        (2048, "micro"),
        (1907, "micro"),
        (1844, "micro"),
        (1843, "custom"),
        (2049, "custom"),
        (3814, "small"),
        (7629, "medium"),
        (15258, "large"),
        (30517, "xlarge"),
        (32769, "custom"),
    ],
)
def test_row_46_a_request_within_ten_percent_below_a_tier_belongs_to_it(mib: int, tier: str) -> None:
    """`2G`, `4G`, `8G`, `16G` and `32G` are what people write for the tiers."""
    assert tier_of(make_pod("s", 500, mib)) == tier
