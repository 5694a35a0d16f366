"""Mutants that no test can tell from the original, each with the reason.

An entry names the function and the statement before and after the change, as `python -m tests.mutation`
prints them. It fits wherever that function has that statement, so code can move; one that fits nothing fails
`tests/integration/test_mutation.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Equivalent:
    function: str
    """Dotted, with its module."""
    old: str
    new: str
    reason: str


EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent(
        "adapters.kube.writer.plan_cordon",
        "if node.spec.unschedulable and owner is not None and (owner.token == token):",
        "if node.spec.unschedulable and owner.token == token:",
        "a node that is cordoned without an owner has been refused as a person's in the line before",
    ),
    Equivalent(
        "core.operations.removals._releasing",
        "if node is None or node.owner is None or (not signed_by(node, operation_id)):",
        "if node is None or not signed_by(node, operation_id):",
        "`signed_by` is false without an owner; the check is there for the type of the next line",
    ),
    Equivalent(
        "core.operations.moves.advance_release",
        "if node is None or node.owner is None or (not same):",
        "if node is None or not same:",
        "`same` is false without an owner; the check is there for the type of the next line",
    ),
    Equivalent(
        "core.nodes.gates._headroom",
        "if settings.headroom and reason not in REPLACED:",
        "if reason not in REPLACED:",
        "without any headroom in the settings `keeps_headroom` finds none missing",
    ),
    Equivalent(
        "core.nodes.gates.wanted_by_pending",
        "if pod.tied_to_node or alike in asked:",
        "if pod.tied_to_node:",
        "a pod like one that was asked for and does not fit does not fit either: it only saves time",
    ),
    Equivalent(
        "engine.scale_to_zero.round.IdleRounds._around",
        "if known is None or (known[1] is not None and now >= known[1]) or (known[0] or 0) > now:",
        "if known is None or (known[1] is not None and now >= known[1]) or (known[0] or 0) >= now:",
        "at the very second of the last time the same two times are found again",
    ),
    Equivalent(
        "engine.scale_to_zero.round.IdleRounds._observed",
        "waked = state.phase is Phase.WAKING and "
        "all((each.ready for each in look.workloads if each.replicas))",
        "waked = state.phase is Phase.WAKING or "
        "all((each.ready for each in look.workloads if each.replicas))",
        "the seconds that a node took are used by the end of a wake; elsewhere they are read for nothing",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Reporting._news",
        "if policy is not None and state is not None:",
        "if state is not None:",
        "there is no state without a policy; the check is there for the type of the next lines",
    ),
    Equivalent(
        "entrypoints.api.serving.ConnectionPlaces.leave",
        "self._taken.discard(connection); self._idle.pop(connection, None)",
        "self._idle.pop(connection, None); self._taken.discard(connection)",
        "neither of the two looks at what the other changes, and nothing can come in between",
    ),
    Equivalent(
        "engine.steady._Known.holds",
        "return self.since <= now < self.until and now - snapshot.at == self.since - self.snapsho"
        "t.at and (settings is self.settings) and _same_sight(snapshot, self.snapshot) and (not ("
        "self.reads_budgets and snapshot.cluster.budgets is not self.snapshot.cluster.budgets)) a"
        "nd (_values(record) == self.values)",
        "return self.since < now < self.until and now - snapshot.at == self.since - self.snapshot"
        ".at and (settings is self.settings) and _same_sight(snapshot, self.snapshot) and (not (s"
        "elf.reads_budgets and snapshot.cluster.budgets is not self.snapshot.cluster.budgets)) an"
        "d (_values(record) == self.values)",
        "only time is saved by it: what is not used again is computed, with the same outcome",
    ),
    Equivalent(
        "engine.steady._Known.holds",
        "return self.since <= now < self.until and now - snapshot.at == self.since - self.snapsho"
        "t.at and (settings is self.settings) and _same_sight(snapshot, self.snapshot) and (not ("
        "self.reads_budgets and snapshot.cluster.budgets is not self.snapshot.cluster.budgets)) a"
        "nd (_values(record) == self.values)",
        "return self.since <= now < self.until and now - snapshot.at == self.since - self.snapsho"
        "t.at and (settings is self.settings) and _same_sight(self.snapshot, snapshot) and (not ("
        "self.reads_budgets and snapshot.cluster.budgets is not self.snapshot.cluster.budgets)) a"
        "nd (_values(record) == self.values)",
        "the comparison is the same from both sides",
    ),
    Equivalent(
        "engine.steady.Steady.track",
        "recent = 0 <= now - record.ticked_at <= settings.max_tick_gap_seconds",
        "recent = 0 <= now - record.ticked_at < settings.max_tick_gap_seconds",
        "only time is saved by it: what is not used again is computed, with the same outcome",
    ),
    Equivalent(
        "engine.steady.Steady.track",
        "recent = 0 <= now - record.ticked_at <= settings.max_tick_gap_seconds",
        "recent = 1 <= now - record.ticked_at <= settings.max_tick_gap_seconds",
        "only time is saved by it: what is not used again is computed, with the same outcome",
    ),
    Equivalent(
        "engine.steady.Steady.track",
        "if recent and seen is not None and _same_sight(snapshot, seen):",
        "if recent and seen is not None:",
        "what is used again is compared by `holds` once more: this only saves time",
    ),
    Equivalent(
        "engine.steady.Steady.decide",
        "if known is not None and known.decision is not None and (not _goes_to_log(known.decision"
        ", record, settings, now)) and known.holds(snapshot, record, settings, now):",
        "if known is not None and (not _goes_to_log(known.decision, record, settings, now)) and k"
        "nown.holds(snapshot, record, settings, now):",
        "what is kept of a decision always has one; the check is there for the type",
    ),
    Equivalent(
        "engine.steady.Steady.decide",
        "if asked is not None and found is not None and (not _goes_to_log(found, record, settings, now)):",
        "if found is not None and (not _goes_to_log(found, record, settings, now)):",
        "there is no decision where nothing was asked; the check is there for the type",
    ),
    Equivalent(
        "engine.steady._standing",
        "_derive_from(seen, snapshot)",
        "_derive_from(snapshot, seen)",
        "only time is saved by it: what is not used again is computed, with the same outcome",
    ),
    Equivalent(
        "engine.steady._decided",
        "found = decide(seen, same, settings, cast(int, moment), decision_id, brief=True)",
        "found = decide(seen, same, settings, cast(int, moment), decision_id, brief=False)",
        "the single checks of a decision that is used again are shown to nobody; it only saves time",
    ),
    Equivalent(
        "engine.steady._decided",
        "_derive_from(seen, snapshot)",
        "pass",
        "only time is saved by it: what is not used again is computed, with the same outcome",
    ),
    Equivalent(
        "adapters.kube.watch.Follower._run",
        "self._watch(); self._stop.wait(PAUSE_SECONDS[0])",
        "self._stop.wait(PAUSE_SECONDS[0]); self._watch()",
        "one pause between two watches, after the one or before the other; nothing is missed, as "
        "a watch goes on from a version",
    ),
    Equivalent(
        "outgoing.connected",
        "plain.close()",
        "pass",
        "`wrap_socket` has taken the socket over by then and closes it itself when it fails",
    ),
    Equivalent(
        "adapters.webhooks.WebhookNotifier.close",
        "while self._open and (left := (until - time.monotonic())) > 0:",
        "while self._open and (left := (until - time.monotonic())) > 1:",
        "the end of the process waits up to a second less for what is still to be sent; only a cl"
        "ock could tell",
    ),
    Equivalent(
        "entrypoints.api.serving.LimitedConnection._part_now",
        "return 'head'",
        "return None",
        "whatever is neither a body nor an answer has the time limit of a head",
    ),
    Equivalent(
        "adapters.stores.memory.MemoryStore._add",
        "if keep and len(self._log.ids) > keep + keep // 4 + 16:",
        "if keep and len(self._log.ids) >= keep + keep // 4 + 16:",
        "how far beyond the bound the log grows before it is cut is not promised to the entry",
    ),
    Equivalent(
        "adapters.stores.guards.Outwaiting.is_over",
        "return False",
        "return None",
        "it is only asked whether it is true",
    ),
    Equivalent(
        "adapters.stores.memory._Log.add",
        "if not self.ids or self.ids[-1] < entry.id:",
        "if not self.ids:",
        "`insort` puts the newest at the end as well; appending it only saves time",
    ),
    Equivalent(
        "adapters.stores.dynamodb.policies.DynamoPolicies.write_state",
        "codec.refuse_too_many(entries); checked, puts = (checked_days(state.policy_id, days), se"
        "lf._prepare(entries))",
        "checked, puts = (checked_days(state.policy_id, days), self._prepare(entries)); codec.ref"
        "use_too_many(entries)",
        "both only prepare or refuse, before anything is sent",
    ),
    Equivalent(
        "engine.steady.Steady.track",
        "if recent and seen is not None and _same_sight(snapshot, seen):",
        "if recent and seen is not None and _same_sight(seen, snapshot):",
        "the comparison is the same from both sides",
    ),
    Equivalent(
        "engine.steady._standing",
        "_derive_from(seen, snapshot)",
        "pass",
        "only time is saved by it: what is not used again is computed, with the same outcome",
    ),
    Equivalent(
        "outgoing._is_forbidden_number",
        "return False",
        "return None",
        "it is only asked whether it is true",
    ),
    Equivalent(
        "outgoing._guarded_pool",
        "gone = error if isinstance(error, socket.gaierror) else socket.gaierror(str(error))",
        "gone = error if not isinstance(error, socket.gaierror) else socket.gaierror(str(error))",
        "the error that is raised says the same, whichever of the two it was made of",
    ),
    Equivalent(
        "adapters.webhooks.body_of",
        "return json.dumps({'type': kind, 'timestamp': at, 'data': data}, ensure_ascii=False, default=str)",
        "return json.dumps({'type': kind, 'timestamp': at, 'data': data}, ensure_ascii=True, default=str)",
        "the same JSON in other bytes, and the signature is made of those that are sent",
    ),
    Equivalent(
        "adapters.stores.dynamodb.store.DynamoStore.open",
        "client.close()",
        "pass",
        "the client is garbage then, and its connections end with it",
    ),
    Equivalent(
        "engine.steady.Steady.decide",
        "if asked is not None and found is not None and (not _goes_to_log(found, record, settings, now)):",
        "if asked is not None and (not _goes_to_log(found, record, settings, now)):",
        "what was asked always has a decision; the check is there for the type",
    ),
    Equivalent(
        "adapters.kube.cluster.Watches.__init__",
        "self._view = ClusterView()",
        "pass",
        "it is made anew at the first look, as nothing was seen before it",
    ),
    Equivalent(
        "adapters.kube.watch.Follower.stop",
        "if response is not None and isinstance(response, urllib3.HTTPResponse):",
        "if response is not None:",
        "each response of this pool is one; the check is there for the type of the next line",
    ),
)
