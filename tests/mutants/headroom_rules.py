"""Bugs of headroom, room ahead of demand, pool weights, pool limits and the fallback of spot pools."""

from __future__ import annotations

from tests.mutants.plant import Mutant

HEADROOM = "unit:tests/unit/test_headroom.py"
FORESIGHT = "unit:tests/unit/engine/test_foresight.py"
POOLS = "unit:tests/unit/test_pool_priorities.py"

OF_HEADROOM = (
    Mutant(
        "headroom that is missing launches nothing",
        "decide._pressure",
        "[short] if short else []",
        "[]",
        (HEADROOM, "story:headroom-is-kept-while"),
    ),
    Mutant(
        "headroom is planned before pending pods",
        "sizing._plan",
        "launching.serve(pending)",
        "launching.make_room(phantoms(settings, snapshot.at)); launching.serve(pending)",
        (HEADROOM, "story:headroom-comes-after-pods"),
    ),
    Mutant(
        "headroom keeps its nodes although a maximum keeps pods from theirs",
        "headroom.gives_way",
        "at_maximum and held_up",
        "False",
        (HEADROOM, "story:headroom-gives-way"),
    ),
    Mutant(
        "all that is kept for headroom goes for one pod",
        "_UnderusedChoice._why_no_place",
        "self._way = frozenset()",
        "",
        (HEADROOM,),
    ),
    Mutant(
        "a scale-down takes a node that holds headroom",
        "Elsewhere.why_not",
        "self._spare.why_less(self._spare_before)",
        '""',
        (HEADROOM,),
    ),
    Mutant(
        "an underused node that holds headroom goes",
        "_UnderusedChoice._why_no_place",
        "places.spare.why_less(places.spare_before)",
        '""',
        (HEADROOM,),
    ),
    Mutant(
        "headroom is not asked for again before a removal is irrevocable",
        "gates._headroom",
        "settings.headroom and reason not in REPLACED",
        "False",
        (HEADROOM,),
    ),
    Mutant(
        "a removal does not give way to headroom",
        "stopping.why_yield",
        "why_headroom_needs(snapshot, record, settings, [node.name for node in nodes])",
        '""',
        (HEADROOM, "story:headroom-is-needed-again"),
    ),
    Mutant(
        "headroom is kept outside its window",
        "headroom.wanted_now",
        "headroom.window is not None and not is_open(headroom.window, now)",
        "False",
        (HEADROOM, "story:headroom-by-the-hour"),
    ),
    Mutant(
        "headroom keeps a sleeping pool awake",
        "headroom.wanted_now",
        "headroom.pool not in asleep",
        "True",
        (HEADROOM,),
    ),
    Mutant(
        "two headrooms share the same room",
        "headroom.room_for",
        "taken[id(place)] = (used[0] + cpu, used[1] + memory, used[2] + count)",
        "pass",
        (HEADROOM,),
    ),
    Mutant(
        "consolidation moves pods into the headroom",
        "choose.Choice._permits",
        "not lost",
        "True",
        ("unit:tests/unit/consolidation/test_choice.py",),
    ),
    Mutant(
        "weights are not looked at",
        "Offer.rank",
        "-self.pool.weight",
        "0",
        (POOLS, "story:a-pool-of-more-weight"),
    ),
    Mutant(
        "consolidation replaces nodes by those of another weight",
        "sweep._of_same_weight",
        "weights == {offer.pool.weight}",
        "True",
        ("unit:tests/unit/consolidation/test_choice.py", "story:a-pool-whose-weight-flips"),
    ),
    Mutant(
        "nodes on their way do not count against the limits of their pool",
        "capacity._parts",
        "((slot.instance_type, None) for slot in unseen)",
        "()",
        (POOLS,),
    ),
    Mutant(
        "a drain whose pods took the headroom is tried again at once",
        "scale_down._why_abort",
        "needed.cause is not AbortCause.HEADROOM or not moved",
        "True",
        ("unit:tests/unit/test_headroom.py", "story:headroom-that-moved-pods-take"),
    ),
    Mutant(
        "headroom that is needed again is launched before its node is given back",
        "scale_down.gives_way",
        "abort.excused or abort.stop.cause in GIVEN_BACK",
        "abort.excused or abort.stop.cause is AbortCause.NOT_ALLOWED",
        ("unit:tests/unit/test_headroom.py",),
    ),
    Mutant(
        "limits are asked for when a launch is planned only",
        "slots._why_not_now",
        "situation.why_over_limits(pool)",
        '""',
        (POOLS,),
    ),
    Mutant(
        "a spot offer without capacity is asked for again with every launch",
        "offers._markets",
        "falls_back(pool)",
        "False",
        (POOLS, "story:spot-falls-back"),
    ),
    Mutant(
        "nodes are launched ahead of demand where a constant headroom is as good",
        "Foresight._outlook",
        "not verdict.wins",
        "False",
        (FORESIGHT,),
        alone=True,
    ),
    Mutant(
        "room is asked for again for demand that has come",
        "Foresight._room",
        "high - now.pods",
        "high",
        (FORESIGHT,),
        alone=True,
    ),
    Mutant(
        "the constant headroom that a forecast must beat costs nothing",
        "ahead.judge",
        "before + extra",
        "before",
        ("unit:tests/unit/forecast/test_ahead.py",),
        alone=True,
    ),
    Mutant(
        "what a schedule keeps asleep is woken ahead of use",
        "waking_ahead._may_wake",
        "state.idle_since is not None",
        "True",
        ("unit:tests/unit/scaling/test_ahead.py",),
        alone=True,
    ),
)
