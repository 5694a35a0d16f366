"""Wrong rules about nodes: a changed comparison, a forgotten exception, a step left out. Each is what the
code did before its row was settled, or the nearest mistake to it; the stories of the rows catch them."""

from __future__ import annotations

from tests.mutants.plant import Mutant

OF_NODES = (
    Mutant(
        "workers that are not Ready are asked for their CPU",
        "ports.observe",
        "view.ready_names",
        "tuple(node.name for node in view.workers)",
        ("story:row-27",),
    ),
    Mutant(
        "CPU is known although half of the workers has no sample",
        "why_unknown",
        "len(missing) * MOST_MISSING <= len(asked)",
        "len(missing) < len(asked)",
        ("unit:tests/unit/rows",),
    ),
    Mutant(
        "load that is back does not release a scale-down",
        "stopping.why_yield",
        "load_is_high(snapshot, settings)",
        '""',
        ("unit:tests/unit/rows",),
    ),
    Mutant(
        "the write that enters TERMINATING does not ask for the load",
        "gates._load",
        """
        yield load_known(snapshot)
        yield load_fits(snapshot, record, settings, (removal,))
        """,
        "",
        ("story:row-28",),
    ),
    Mutant(
        "unknown load is taken for none",
        "gates.load_known",
        "cpu.value is not None",
        "True",
        ("story:row-28-metrics",),
    ),
    Mutant(
        "a pod that is pending by then is not waited for",
        "gates._load",
        "yield none_pending_for(node, snapshot, settings)",
        "",
        ("unit:tests/unit/rows",),
    ),
    Mutant(
        "the rest may reach cpu_up",
        "load_on",
        "after < settings.cpu_up",
        "after <= 1",
        ("story:row-28-the-rest",),
    ),
    Mutant(
        "a worker that a person cordoned is capacity",
        "capacity.standing",
        "not node.unschedulable",
        "True",
        ("story:row-29",),
    ),
    Mutant(
        "a scale-down asks nobody whether anybody plays",
        "removals._plan",
        "None if hurried else situation.snapshot.players_of",
        "None",
        ("story:row-30",),
    ),
    Mutant(
        "a node is chosen although somebody plays on it",
        "drain.judge",
        "None if players is None else _game_server(pod, players)",
        "None",
        ("story:row-30",),
    ),
    Mutant(
        "an interruption spares game servers",
        "removals._plan",
        "None if hurried else situation.snapshot.players_of",
        "situation.snapshot.players_of",
        ("story:row-30-an-interruption",),
    ),
    Mutant(
        "a reserved server is moved when nobody plays",
        "why_not_movable",
        "plan not in MOVABLE_PLANS",
        "not plan",
        ("story:row-30-players",),
    ),
    Mutant(
        "a replacement is launched for a node that cannot be drained",
        "spot._why_wait",
        "held_by(checks) or _why_kept(spot, situation)",
        "held_by(checks)",
        ("story:row-35",),
    ),
    Mutant(
        "the obstacle is forgotten when time runs out",
        "_with_obstacle",
        "f'{abort.stop.says}: {removals.obstacle(removal)}' if abort.blamed else abort.stop.says",
        "abort.stop.says",
        ("story:row-36-the-obstacle",),
    ),
    Mutant(
        "a run that was killed costs a drain attempt",
        "with_time_again",
        "max(removal.drain_deadline, now + settings.drain_timeout_seconds)",
        "removal.drain_deadline",
        ("story:row-36-a-killed",),
    ),
    Mutant(
        "the preferred zone loses its nodes first",
        "targets._in_order",
        "-settings.zone_rank(n.zone)",
        "settings.zone_rank(n.zone)",
        ("story:row-45",),
    ),
    Mutant(
        "a request below a tier's size is no tier",
        "tier_of",
        "mib * TIER_PERCENT <= asked * 100 <= mib * 100",
        "asked == mib",
        ("story:row-30-players",),
    ),
    Mutant(
        "a node that was lost in the middle of its drain starts no cooldown",
        "Removal.started",
        "self.attempts > 0 or self.terminated",
        "self.terminated",
        ("story:lost-during",),
    ),
    Mutant(
        "a consolidation continues after it was turned off",
        "stopping.why_stop",
        "not settings.consolidation.enabled",
        "False",
        ("story:consolidation-that-is-turned-off", "unit:tests/unit/operations"),
    ),
    Mutant(
        "what consolidation emptied holds up other removals after it was turned off",
        "track_leaving",
        "on and _still(one, snapshot, settings, now)",
        "_still(one, snapshot, settings, now)",
        ("story:consolidation-that-is-turned-off", "unit:tests/unit/test_leaving.py"),
    ),
)
