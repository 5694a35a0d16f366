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
        "core.nodes.gates.wanted_by_pending",
        "asked.add(alike)",
        "pass",
        "a pod like one that was asked for is asked for again: it only saves time",
    ),
    Equivalent(
        "core.nodes.gates.wanted_by_pending",
        "return ''",
        "return None",
        "it is only asked whether it is true",
    ),
    Equivalent(
        "core.nodes.drain._label_of",
        "return (asked.key, asked.values[0])",
        "return None",
        "every budget of the namespace is compared then: the label only saves time",
    ),
    Equivalent(
        "core.nodes.drain.Disruptions._covering",
        "self._known[told_by] = found",
        "pass",
        "the same is looked for again: it only saves time",
    ),
    Equivalent(
        "core.nodes.capacity.missing_by_pool",
        "asking = [pool for pool in pools if pool.min_workers > 0]",
        "asking = [pool for pool in pools if True]",
        "a pool without a minimum lacks nothing: it only saves time",
    ),
    Equivalent(
        "core.nodes.capacity.missing_by_pool",
        "asking = [pool for pool in pools if pool.min_workers > 0]",
        "asking = [pool for pool in pools if pool.min_workers >= 0]",
        "a pool without a minimum lacks nothing: it only saves time",
    ),
    Equivalent(
        "core.nodes.sizing._plan",
        "held = {p.name: held_by_pool(snapshot, record, p) for p in settings.pools if p.limits is not None}",
        "held = {p.name: held_by_pool(snapshot, record, p) for p in settings.pools if True}",
        "what a pool without limits holds is asked for by nobody",
    ),
    Equivalent(
        "core.nodes.sizing._add_woken",
        "return 0",
        "return None",
        "it is only asked whether there are any",
    ),
    Equivalent(
        "core.nodes.sizing._cheapest_cpu",
        "return min(offers, key=lambda offer: (*offer.rank, float(offer.price or 0) / max(1, offe"
        "r.node_type.allocatable.cpu_milli)), default=None)",
        "return min(offers, key=lambda offer: (*offer.rank, float(offer.price or 0) / max(2, offe"
        "r.node_type.allocatable.cpu_milli)), default=None)",
        "no type has less than two thousandths of a CPU to offer; the bound is there against a division by 0",
    ),
    Equivalent(
        "adapters.webhooks.WebhookNotifier.close",
        "while self._open and (left := (until - time.monotonic())) > 0:",
        "while self._open and (left := (until - time.monotonic())) >= 0:",
        "a wait of no time at all",
    ),
    Equivalent(
        "adapters.webhooks.kind_of",
        "return ''",
        "return None",
        "it is only asked whether it is true",
    ),
    Equivalent(
        "adapters.webhooks.post",
        "host, port = (parts.hostname or '', parts.port or PORTS.get(parts.scheme, 0))",
        "host, port = (parts.hostname or '', parts.port or PORTS.get(parts.scheme, 1))",
        "a URL of any other scheme is refused before its port is used",
    ),
    Equivalent(
        "adapters.webhooks.post",
        "connection.close()",
        "pass",
        "the connection is garbage with the end of the function, and its socket ends with it",
    ),
    Equivalent(
        "outgoing._guarded_pool",
        "failed: Exception = NewConnectionError(self, 'Failed to establish a new connection: no address')",
        "failed: Exception = NewConnectionError('Failed to establish a new connection: no address', self)",
        "no lookup succeeds without an address: it is there for the type of the last line",
    ),
    Equivalent(
        "core.operations.facts._transition",
        "if not isinstance(part, Removal) or was != RemovalState.DRAINING:",
        "if was != RemovalState.DRAINING:",
        "no other part has a state of that name; the check is there for the type of the next lines",
    ),
    Equivalent(
        "core.operations.facts._gone",
        "gone = (part for part in found if isinstance(part, Removal) and part.state is RemovalState.GONE)",
        "gone = (part for part in found if part.state is RemovalState.GONE)",
        "no other part has that state; the check is there for the type of the next line",
    ),
    Equivalent(
        "core.operations.moves._why_no_room",
        "if move.settled or pod is None or pod.terminating:",
        "if move.settled or pod.terminating:",
        "a pod that is not there has settled its move, or is waited for, before room is asked about",
    ),
    Equivalent(
        "core.operations.removals._drained",
        "if taken or (hurried and (not cordoned_by(node, operation_id))):",
        "if taken or not cordoned_by(node, operation_id):",
        "who is in no hurry gets here only with a cordon of its own: `_accepts_no_pods` was asked before",
    ),
    Equivalent(
        "core.operations.removals._told",
        "if outcome.kind is OutcomeKind.LATER and isinstance(outcome.effect, effects.Evict):",
        "if outcome.kind is OutcomeKind.LATER:",
        "it is asked about evictions alone; the check is there for the type of the next line",
    ),
    Equivalent(
        "core.operations.slots.without_capacity",
        "return frozenset((one.effect.slot.key for one in refused if isinstance(one.effect, effec"
        "ts.Launch)))",
        "return frozenset((one.effect.slot.key for one in refused if True))",
        "only launches end without capacity; the check is there for the type",
    ),
    Equivalent(
        "core.operations.slots.gone",
        "if instance is not None and instance.state is InstanceState.TERMINATING:",
        "if instance.state is InstanceState.TERMINATING:",
        "a node is found by an instance that is listed; the check is there for the type",
    ),
    Equivalent(
        "core.operations.spot.why_ended",
        "if removal is not None and spot.closing in (SpotEnd.NODE_STAYS, SpotEnd.SET_ASIDE):",
        "if spot.closing in (SpotEnd.NODE_STAYS, SpotEnd.SET_ASIDE):",
        "only a removal ends so; the check is there for the type of the next line",
    ),
    Equivalent(
        "core.operations.spot.why_ended",
        "if slot is not None and spot.closing is SpotEnd.NO_REPLACEMENT:",
        "if spot.closing is SpotEnd.NO_REPLACEMENT:",
        "only a launch ends so; the check is there for the type of the next line",
    ),
    Equivalent(
        "core.operations.spot._coming",
        "return (Node(f'{spot.id}-replacement', '', pool=spot.pool, zone=place.zone),)",
        "return (Node('', f'{spot.id}-replacement', pool=spot.pool, zone=place.zone),)",
        "it is only counted; neither its name nor its UID is asked for",
    ),
    Equivalent(
        "core.operations.spot._coming",
        "if spot.slot is not None and spot.slot.state is SlotState.READY:",
        "if spot.slot is not None:",
        "while a replacement is on its way nothing depends on the answer, and one that failed ends it",
    ),
    Equivalent(
        "core.operations.situation.backoff_until",
        "return now + min(settings.backoff_max_seconds, settings.backoff_seconds << min(failures - 1, 25))",
        "return now + min(settings.backoff_max_seconds, settings.backoff_seconds << min(failures - 1, 26))",
        "2^25 seconds are more than a year, and no setting allows a longer wait",
    ),
    Equivalent(
        "adapters.kube.writer.Actor._uid_at",
        "return ''",
        "return None",
        "it is only compared with the UID that was meant, and no UID is empty",
    ),
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
        "waked = state.phase is Phase.WAKING and all((each.ready for each in look.workloads if ea"
        "ch.replicas))",
        "waked = state.phase is Phase.WAKING or all((each.ready for each in look.workloads if eac"
        "h.replicas))",
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
        "t.at and (settings is self.settings) and self.sees(snapshot)",
        "return self.since < now < self.until and now - snapshot.at == self.since - self.snapshot"
        ".at and (settings is self.settings) and self.sees(snapshot)",
        "only time is saved by it: what is not used again is computed, with the same outcome",
    ),
    Equivalent(
        "engine.steady._Known.sees",
        "return _same_sight(snapshot, self.snapshot) and (not self.reads_budgets or snapshot.clus"
        "ter.budgets is budgets)",
        "return _same_sight(self.snapshot, snapshot) and (not self.reads_budgets or snapshot.clus"
        "ter.budgets is budgets)",
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
        "if recent and (not self._changed):",
        "if recent:",
        "what is used again is compared by `holds` once more: this only saves time",
    ),
    Equivalent(
        "engine.steady.Steady.decide",
        "if known is not None and known.decision is not None and (not _goes_to_log(known.decision"
        ", record, settings, now)) and known.holds(snapshot, settings, now) and (_decided_by(recor"
        "d) == known.values):",
        "if known is not None and (not _goes_to_log(known.decision, record, settings, now)) and k"
        "nown.holds(snapshot, settings, now) and (_decided_by(record) == known.values):",
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
        "self._changed = seen is None or not _same_sight(snapshot, seen)",
        "self._changed = seen is None or not _same_sight(seen, snapshot)",
        "the comparison is the same from both sides",
    ),
    Equivalent(
        "engine.steady._standing",
        "_derive_from(seen, snapshot)",
        "pass",
        "only time is saved by it: what is not used again is computed, with the same outcome",
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
    Equivalent(
        "engine.loop.Pruning.__init__",
        "self._due = 0.0",
        "self._due = 1.0",
        "the first tick is later than the first second of 1970",
    ),
    Equivalent(
        "engine.loop.run_loop",
        "wait = interval_seconds * (1 + JITTER * chance.uniform(-1, 1))",
        "wait = interval_seconds / (1 + JITTER * chance.uniform(-1, 1))",
        "replicas are spread over the same range; the draws within it are not promised",
    ),
    Equivalent(
        "engine.loop.run_loop",
        "wait = interval_seconds * (1 + JITTER * chance.uniform(-1, 1))",
        "wait = interval_seconds * (1 - JITTER * chance.uniform(-1, 1))",
        "replicas are spread over the same range; the draws within it are not promised",
    ),
    Equivalent(
        "engine.loop.run_loop",
        "wait = interval_seconds * (1 + JITTER * chance.uniform(-1, 1))",
        "wait = interval_seconds * (1 + JITTER * chance.uniform(1, -1))",
        "replicas are spread over the same range; the draws within it are not promised",
    ),
    Equivalent(
        "engine.loop.run_loop",
        "pruning.after(report); wait = interval_seconds * (1 + JITTER * chance.uniform(-1, 1))",
        "wait = interval_seconds * (1 + JITTER * chance.uniform(-1, 1)); pruning.after(report)",
        "the draw needs nothing of the pruning",
    ),
    Equivalent(
        "engine.loop.guarded_tick",
        "ports.observer.ticked(ports.clock.now() - start, False, kind); entry = entry_of(ports.ne"
        "w_id(), int(start), alarm)",
        "entry = entry_of(ports.new_id(), int(start), alarm); ports.observer.ticked(ports.clock.n"
        "ow() - start, False, kind)",
        "the alarm is only composed there; it is sent after both",
    ),
    Equivalent(
        "engine.loop.Fleet._follow",
        "if report.held and self.offers(member, settings.cluster):",
        "if self.offers(member, settings.cluster):",
        "`offers` is false for a cluster that is not held: its ticks are counted from 0 again",
    ),
    Equivalent(
        "engine.loop.Fleet._follow",
        "self._on_report(settings.cluster, report); pruning.after(report)",
        "pruning.after(report); self._on_report(settings.cluster, report)",
        "the report is written before both, and neither looks at what the other does",
    ),
    Equivalent(
        "engine.loop.Fleet._follow",
        "pruning.after(report); self.note(settings.cluster, report.held)",
        "self.note(settings.cluster, report.held); pruning.after(report)",
        "neither looks at what the other does",
    ),
    Equivalent(
        "engine.foresight.Foresight.__init__",
        "self._step = -1",
        "self._step = -2",
        "no step of a clock is below 0",
    ),
    Equivalent(
        "engine.foresight.Foresight.outlooks",
        "self._step = step",
        "pass",
        "only time is saved by it: the same is worked out again",
    ),
    Equivalent(
        "engine.foresight.Foresight.expecting",
        "if self._given is None or self._given[0] is not settings or self._given[1] != wanted:",
        "if self._given is None or self._given[1] != wanted:",
        "what is given out instead has the same value",
    ),
    Equivalent(
        "engine.foresight.Foresight._verdict",
        "hour = step // STEPS_AN_HOUR",
        "hour = step * STEPS_AN_HOUR",
        "only time is saved by it: within an hour the same values are judged again",
    ),
    Equivalent(
        "engine.foresight.Foresight._verdict",
        "if known is None or known[0] != hour:",
        "if known is None or known[1] != hour:",
        "only time is saved by it: within an hour the same values are judged again",
    ),
    Equivalent(
        "engine.foresight._too_little",
        "if series.known < LEAST_KNOWN:",
        "if series.known <= LEAST_KNOWN:",
        "nine tenths of a week are no whole number of quarters",
    ),
    Equivalent(
        "engine.foresight._too_little",
        "return ''",
        "return None",
        "it is only asked whether it is true",
    ),
    Equivalent(
        "engine.foresight.Foresight._room",
        "of = now if now.pods else self._notes.last(pool.name) or PoolDemand(1, 1, 1)",
        "of = now if now.pods else self._notes.last(pool.name)",
        "a pool that is worth preparing for has had a pod, so its last demand is known",
    ),
    Equivalent(
        "engine.foresight.Foresight._room",
        "of = now if now.pods else self._notes.last(pool.name) or PoolDemand(1, 1, 1)",
        "of = now if now.pods else self._notes.last(pool.name) or PoolDemand(2, 1, 1)",
        "a pool that is worth preparing for has had a pod, so its last demand is known",
    ),
    Equivalent(
        "engine.foresight.Foresight._room",
        "of = now if now.pods else self._notes.last(pool.name) or PoolDemand(1, 1, 1)",
        "of = now if now.pods else self._notes.last(pool.name) or PoolDemand(1, 2, 1)",
        "a pool that is worth preparing for has had a pod, so its last demand is known",
    ),
    Equivalent(
        "engine.foresight.Foresight._room",
        "of = now if now.pods else self._notes.last(pool.name) or PoolDemand(1, 1, 1)",
        "of = now if now.pods else self._notes.last(pool.name) or PoolDemand(1, 1, 2)",
        "a pool that is worth preparing for has had a pod, so its last demand is known",
    ),
    Equivalent(
        "engine.notes.DemandNotes.__init__",
        "self._step = 0",
        "self._step = 1",
        "the first look is later than the first quarter of an hour of 1970",
    ),
    Equivalent(
        "engine.notes.DemandNotes.newest",
        "return max(self._past, default=-1)",
        "return max(self._past, default=-2)",
        "it is asked only where something is known",
    ),
    Equivalent(
        "engine.notes.DemandNotes.series",
        "day_before = pods[-STEPS_A_DAY] if len(pods) >= STEPS_A_DAY else pods[-1] if pods else 0",
        "day_before = pods[-STEPS_A_DAY] if len(pods) >= STEPS_A_DAY else pods[-1] if pods else 1",
        "the first of the steps is known, so nothing has to stand in for it",
    ),
    Equivalent(
        "engine.notes.DemandNotes._read",
        "before = page[-1].id",
        "before = page[-2].id",
        "one entry is read twice, and the higher demand of the same counts",
    ),
    Equivalent(
        "engine.notes._raise",
        "if name not in highest or demand.pods > highest[name].pods:",
        "if name not in highest or demand.pods >= highest[name].pods:",
        "of two looks with as many pods either may be noted",
    ),
    Equivalent(
        "engine.notes.DemandNotes.catch_up",
        "if self._past and step - self.newest <= late:",
        "if step - self.newest <= late:",
        "where nothing is known the newest is longer ago than any step",
    ),
    Equivalent(
        "engine.record_machine.LeasedRun.write",
        "if len(said) > SAID_AT_MOST:",
        "if len(said) >= SAID_AT_MOST:",
        "a text of exactly this length is shortened to itself",
    ),
    Equivalent(
        "engine.notices.heal",
        "ports.store.write(replace(record, contradictions=()), None, alarms)",
        "ports.store.write(replace(record), None, alarms)",
        "what contradicts itself is found when a record is read, and never stored",
    ),
    Equivalent(
        "engine.switch.set_switch",
        "for attempt in range(1, ATTEMPTS + 1):",
        "for attempt in range(1, ATTEMPTS + 2):",
        "the last attempt raises or ends the loop",
    ),
    Equivalent(
        "engine.rounds._late_pod",
        "return ''",
        "return None",
        "it is only asked whether it is true",
    ),
    Equivalent(
        "engine.leased.Leased.half_over",
        "return now < self.since or self._ends - now < self.ttl_seconds / 2",
        "return now < self.since or self._ends - now <= self.ttl_seconds / 2",
        "renewed a moment before or after the half: nothing is promised to the moment",
    ),
    Equivalent(
        "engine.notes.DemandNotes._note",
        "_raise(self._past.setdefault(self._step, {}), self._highest); noted = replace(cost_of(co"
        "st_point(snapshot, settings)), demand={name: (one.pods, one.cpu_milli, one.memory_mib) f"
        "or name, one in self._highest.items()}, demandSince=self._step * STEP_SECONDS)",
        "noted = replace(cost_of(cost_point(snapshot, settings)), demand={name: (one.pods, one.cp"
        "u_milli, one.memory_mib) for name, one in self._highest.items()}, demandSince=self._step"
        " * STEP_SECONDS); _raise(self._past.setdefault(self._step, {}), self._highest)",
        "both only compute; what is noted is appended after both",
    ),
    Equivalent(
        "engine.notes.DemandNotes._read",
        "if len(page) < PAGE or page[-1].at // STEP_SECONDS < oldest:",
        "if len(page) < PAGE or page[-1].at // STEP_SECONDS <= oldest:",
        "what was noted then is about the quarter before, which is not kept",
    ),
    Equivalent(
        "engine.notes.DemandNotes._read",
        "if len(page) < PAGE or page[-1].at // STEP_SECONDS < oldest:",
        "if len(page) < PAGE or page[-2].at // STEP_SECONDS < oldest:",
        "at most one page more is read, and what is too old is dropped after it",
    ),
    Equivalent(
        "engine.notices.answer_notices",
        "ports.notifier.notify(alarm); sentences.append(alarm.says)",
        "sentences.append(alarm.says); ports.notifier.notify(alarm)",
        "the sentence is only kept for the end of the tick",
    ),
    Equivalent(
        "engine.scale_to_zero.waking_ahead.WakingAhead._stretches",
        "before = page[-1].id",
        "before = page[-2].id",
        "one stretch is read twice, and the time between stretches stays the same",
    ),
    Equivalent(
        "engine.notices._receive",
        "ports.notifier.notify(alarm); sentences.append(alarm.says)",
        "sentences.append(alarm.says); ports.notifier.notify(alarm)",
        "the sentence is only kept for the end of the tick",
    ),
    Equivalent(
        "engine.notices._counted",
        "return False",
        "return True",
        "what is no longer in the record is not found by the run either",
    ),
    Equivalent(
        "engine.notices._counted",
        "run.ports.notifier.notify(alarm); run.ports.observer.closed(current, False)",
        "run.ports.observer.closed(current, False); run.ports.notifier.notify(alarm)",
        "neither looks at what the other does",
    ),
    Equivalent(
        "engine.notices._count_clean",
        "if current is not None and current.unclean_runs:",
        "if current is not None:",
        "a run that came to its end was counted before",
    ),
    Equivalent(
        "engine.outages.unread_in",
        "if fresh.problems and (not fresh.cluster.nodes):",
        "if not fresh.cluster.nodes:",
        "a cluster without nodes is always a problem of the snapshot",
    ),
    Equivalent(
        "engine.outages.OutageNotes.__init__",
        "self._known = Snapshot(0)",
        "self._known = Snapshot(1)",
        "nobody asks when what is known was seen",
    ),
    Equivalent(
        "engine.outages.OutageNotes.looked",
        "if not 0 <= snapshot.at - self._looked_at <= self._longest_gap:",
        "if not 0 < snapshot.at - self._looked_at <= self._longest_gap:",
        "the log is read once more, and says the same",
    ),
    Equivalent(
        "engine.outages.OutageNotes.looked",
        "if not 0 <= snapshot.at - self._looked_at <= self._longest_gap:",
        "if not 0 <= snapshot.at - self._looked_at < self._longest_gap:",
        "the log is read once more, and says the same",
    ),
    Equivalent(
        "engine.outages.OutageNotes.looked",
        "if not 0 <= snapshot.at - self._looked_at <= self._longest_gap:",
        "if not 1 <= snapshot.at - self._looked_at <= self._longest_gap:",
        "the log is read once more, and says the same",
    ),
    Equivalent(
        "engine.outages.OutageNotes._changes",
        "continue",
        "break",
        "metrics are the last of the sources",
    ),
    Equivalent(
        "engine.outages.OutageNotes._open_in_log",
        "if fact is None or fact.alarm not in OUTAGES or (not fact.source) or (fact.source in told):",
        "if fact is None or not fact.source or fact.source in told:",
        "no other alarm names a source",
    ),
    Equivalent(
        "engine.outages.OutageNotes._open_in_log",
        "if fact is None or fact.alarm not in OUTAGES or (not fact.source) or (fact.source in told):",
        "if fact is None or fact.alarm not in OUTAGES or fact.source in told:",
        "each of these alarms names its source",
    ),
    Equivalent(
        "engine.ports.nothing_urgent",
        "return 0",
        "return 1",
        "it is only asked whether it has changed",
    ),
    Equivalent(
        "engine.ports.never",
        "return 0.0",
        "return 1.0",
        "the first second of 1970 is before every look",
    ),
    Equivalent(
        "engine.record_machine.RecordMachine.write",
        "return after",
        "return None",
        "what is closed has no effects, and does not go on either way",
    ),
    Equivalent(
        "engine.record_machine.RecordMachine.absorb",
        "run.ports.observer.performed(outcomes); after = machine.absorb(state, outcomes, run.situation)",
        "after = machine.absorb(state, outcomes, run.situation); run.ports.observer.performed(outcomes)",
        "an observer looks at the outcomes alone, and the machine is pure",
    ),
    Equivalent(
        "engine.record_machine.RecordMachine.absorb",
        "refuse_if_broken(machine.check_invariants(state, after))",
        "pass",
        "none of its outcomes breaks an invariant: it guards against a bug of the machine",
    ),
    Equivalent(
        "engine.record_machine._count_run",
        "run.ports.notifier.notify(alarm); run.sentences.append(alarm.says)",
        "run.sentences.append(alarm.says); run.ports.notifier.notify(alarm)",
        "the sentence is only kept for the end of the tick",
    ),
    Equivalent(
        "engine.record_machine._put_aside",
        "return replace(record, launching=None, launching_aside=aside, unclean_runs=0)",
        "return replace(record, launching=None, launching_aside=aside)",
        "the next operation of the lane begins with a count of its own",
    ),
    Equivalent(
        "engine.record_machine._put_aside",
        "return replace(record, launching=None, launching_aside=aside, unclean_runs=0)",
        "return replace(record, launching=None, launching_aside=aside, unclean_runs=1)",
        "the next operation of the lane begins with a count of its own",
    ),
    Equivalent(
        "engine.record_machine._put_aside",
        "return replace(record, removing=None, removing_aside=kept, unclean_removal_runs=0)",
        "return replace(record, removing=None, removing_aside=kept)",
        "the next operation of the lane begins with a count of its own",
    ),
    Equivalent(
        "engine.record_machine._put_aside",
        "return replace(record, removing=None, removing_aside=kept, unclean_removal_runs=0)",
        "return replace(record, removing=None, removing_aside=kept, unclean_removal_runs=1)",
        "the next operation of the lane begins with a count of its own",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Reporting.tell",
        "if port is None or not seen.declarations:",
        "if port is None and (not seen.declarations):",
        "where no object was read there is nothing to tell",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Reporting.tell",
        "if port is None or not seen.declarations:",
        "if not seen.declarations:",
        "where no object was read there is nothing to tell",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Reporting.tell",
        "if port is None or not seen.declarations:",
        "if port is None:",
        "where no object was read there is nothing to tell",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Reporting._news",
        "if report is not None and (asks is not None or report != one.told):",
        "if report is not None:",
        "it is compared once more before the object is told: this only saves time",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Declaring.__init__",
        "self._seen = SeenDeclarations()",
        "pass",
        "it is made anew before anything is read or told",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Declaring.apply",
        "seen.applied |= {policy.origin: policy for policy in stored.values() if declared_by(policy)}",
        "seen.applied |= {policy.origin: policy for policy in stored.values() if True}",
        "only origins of objects are looked up in it",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Declaring._bring_in",
        "stored[change.policy.name] = change.policy",
        "pass",
        "the store refuses a name that is taken, too",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Declaring._is_written",
        "return policy is not None and policy.target == change.policy.target",
        "return policy.target == change.policy.target",
        "what moves is there, so it is known: the check is there for the type",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Declaring._write",
        "if not some or not has_time(leased):",
        "if not has_time(leased):",
        "to write none is to write nothing",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Declaring._end_orphans",
        "stored[policy.name] = left",
        "pass",
        "what is left of it belongs to no object of this round",
    ),
    Equivalent(
        "engine.scale_to_zero.gating.Gating.why_not",
        "return NO_WHY",
        "return None",
        "it is only asked whether it says anything",
    ),
    Equivalent(
        "engine.scale_to_zero.gating.Gating._claim",
        "if known is not None and now - known[1] < ASKED_SECONDS:",
        "if known is not None and now - known[1] <= ASKED_SECONDS:",
        "a claim that is kept for weeks is asked for again a second later",
    ),
    Equivalent(
        "engine.scale_to_zero.gating.Gating._claim",
        "start = first_choice(ref, port_name, len(ports)) if ports else 0",
        "start = first_choice(ref, port_name, len(ports)) if ports else 1",
        "without ports there is nothing to begin with",
    ),
    Equivalent(
        "engine.scale_to_zero.gating.Gating._claim",
        "port = ports[(start + place) % len(ports)]",
        "port = ports[(start - place) % len(ports)]",
        "every process tries the ports in the same order, whichever it is",
    ),
    Equivalent(
        "engine.scale_to_zero.ledger.Ledger.savings",
        "if policy is None and (not rows) and (not self._ports.policies.list_days(policy_id)):",
        "if policy is None and (not self._ports.policies.list_days(policy_id)):",
        "the rows of a range are among all days: this only saves a question",
    ),
    Equivalent(
        "engine.scale_to_zero.ledger.Ledger._open",
        "if policy is None or state is None or (not self._context.defaults.cost_tracking):",
        "if state is None or not self._context.defaults.cost_tracking:",
        "without a policy its state was not asked for either",
    ),
    Equivalent(
        "engine.scale_to_zero.look.Looking.look",
        "queries = sorted({query for query in chain(of_signals, of_rules) if query})",
        "queries = sorted({query for query in chain(of_rules, of_signals) if query})",
        "they are sorted in either case",
    ),
    Equivalent(
        "engine.scale_to_zero.look.Looking.read_workloads",
        "if threads <= 1:",
        "if threads < 1:",
        "one after the other, in a thread of their own",
    ),
    Equivalent(
        "engine.scale_to_zero.look.Looking.look_at",
        "return ActivityLook(scene.readings, tuple(there), tuple(missing), problem, self._rate(po"
        "licy, state, there, scene), scene.held, scene.gap_seconds, self._gate(policy, state, sce"
        "ne) if there else NO_WHY, ready_nodes(view, pool) if pool and view is not None else None"
        ")",
        "return ActivityLook(scene.readings, tuple(there), tuple(missing), problem, self._rate(po"
        "licy, state, there, scene), scene.held, scene.gap_seconds, self._gate(policy, state, sce"
        "ne) if there else NO_WHY, ready_nodes(view, pool) if view is not None else None)",
        "nodes are asked for only where the target is a pool",
    ),
    Equivalent(
        "engine.scale_to_zero.policies.Policies._state",
        "return self.store.find_state(policy_id) or IdleState(policy_id)",
        "return self.store.find_state(policy_id)",
        "each policy has a state from its first write",
    ),
    Equivalent(
        "engine.scale_to_zero.policies.Policies._retarget",
        "fresh = replace(state, idle_since=idle_since, remembered=(), timers=())",
        "fresh = replace(state, idle_since=idle_since, timers=())",
        "where something is remembered the change is refused",
    ),
    Equivalent(
        "engine.scale_to_zero.policies._change",
        "kept = replace(policy, id=known.id, version=known.version, created_at=known.created_at, "
        "updated_at=known.updated_at, origin=known.origin if origin is None else origin, schedule"
        "s=stamped(policy.schedules, known.schedules, 0))",
        "kept = replace(policy, id=known.id, version=known.version, created_at=known.created_at, "
        "updated_at=known.updated_at, origin=known.origin if origin is None else origin, schedule"
        "s=stamped(policy.schedules, known.schedules, 1))",
        "a new schedule is stamped when it is written",
    ),
    Equivalent(
        "engine.scale_to_zero.policy_machine.PolicyMachine._absorb",
        "refuse_if_broken(check_invariants(self.state, step.state))",
        "pass",
        "none of its outcomes breaks an invariant: it guards against a bug of the machine",
    ),
    Equivalent(
        "engine.scale_to_zero.policy_machine.PolicyMachine.perform",
        "self.outcomes = tuple((self._attempt(effect) if clock.now() < last_moment else WorkloadO"
        "utcome(effect, OutcomeKind.SKIPPED, NO_TIME) for effect in step.effects))",
        "self.outcomes = tuple((self._attempt(effect) if clock.now() < last_moment else WorkloadO"
        "utcome(OutcomeKind.SKIPPED, effect, NO_TIME) for effect in step.effects))",
        "it is only asked whether it is done or has changed",
    ),
    Equivalent(
        "engine.scale_to_zero.policy_machine.PolicyMachine._attempt",
        "return WorkloadOutcome(effect, failure(error), str(error))",
        "return WorkloadOutcome(failure(error), effect, str(error))",
        "it is only asked whether it is done or has changed",
    ),
    Equivalent(
        "engine.scale_to_zero.policy_machine.PolicyMachine.goes_on",
        "if any((outcome.kind is OutcomeKind.CHANGED for outcome in outcomes)):",
        "if all((outcome.kind is OutcomeKind.CHANGED for outcome in outcomes)):",
        "a fall has one effect",
    ),
    Equivalent(
        "engine.scale_to_zero.policy_machine.PolicyMachine._restore",
        "least = target.replicas if effect.exact or not seen.replicas else 0",
        "least = target.replicas if effect.exact or not seen.replicas else 1",
        "what is up has one replica at least",
    ),
    Equivalent(
        "engine.journal.consolidation_entry",
        "if decision.consolidation is None or not rules.enabled:",
        "if decision.consolidation is None:",
        "where consolidation is off a decision has no evaluation",
    ),
    Equivalent(
        "engine.steady.Steady.sees_again",
        "return seen is not None and _same_sight(snapshot, seen)",
        "return seen is not None and _same_sight(seen, snapshot)",
        "the comparison is the same from both sides",
    ),
    Equivalent(
        "engine.scale_to_zero.round.IdleRounds._over_all",
        "self._of_pools = [policy for policy in policies if policy.target.pool]",
        "self._of_pools = [policy for policy in policies if True]",
        "a policy without a pool changes no pool",
    ),
    Equivalent(
        "engine.record_machine.LeasedRun.renew",
        "self.leased.renew(); self.record = self.ports.store.load()",
        "self.record = self.ports.store.load(); self.leased.renew()",
        "who writes without the lease in between may write after both as well",
    ),
    Equivalent(
        "engine.record_machine.LeasedRun.reload",
        "self.record = self.ports.store.load(); self.look()",
        "self.look(); self.record = self.ports.store.load()",
        "both are read after the conflict; what only one of them shows yet counts after a grace",
    ),
    Equivalent(
        "engine.record_machine.LeasedRun.is_waited_for",
        "return self.ports.arrived_at() > self.decides_since",
        "return self.ports.arrived_at() >= self.decides_since",
        "a pod that comes at the very moment of the look: nothing is promised to the moment",
    ),
    Equivalent(
        "engine.record_machine.RecordMachine.absorb",
        "run.sentences.extend((entry.says for entry in entries)); run.ports.observer.performed(outcomes)",
        "run.ports.observer.performed(outcomes); run.sentences.extend((entry.says for entry in entries))",
        "an observer looks at the outcomes alone",
    ),
    Equivalent(
        "engine.record_machine.run_lane",
        "run.advance_found(partial(open_in, lane)); run.ended.add(lane)",
        "run.ended.add(lane); run.advance_found(partial(open_in, lane))",
        "where a lane does not come to its end, the tick ends with it",
    ),
    Equivalent(
        "engine.scale_to_zero.context.PolicyContext.find",
        "if policy is None or state is None:",
        "if policy is None:",
        "without a state its policy was not asked for either",
    ),
    Equivalent(
        "engine.scale_to_zero.declaring.Declaring._bring_in",
        "if not change.moves or self._is_written(one, change):",
        "if self._is_written(one, change):",
        "the store refuses a target or a Service that is taken, too",
    ),
    Equivalent(
        "core.operations.spot._offer",
        "successors, pods = (Successors(snapshot, record, settings), pods_to_move(node, snapshot,"
        " unhealthy=False))",
        "successors, pods = (Successors(snapshot, record, settings), pods_to_move(node, snapshot,"
        " unhealthy=True))",
        "what is terminating is not moved, whether its node is lost or not",
    ),
    Equivalent(
        "core.operations.spot.absorb",
        "if spot.kind is SpotKind.REBALANCE and slots.without_capacity(outcomes):",
        "if spot.kind is SpotKind.REBALANCE:",
        "it is asked only of an outcome without capacity: this saves time",
    ),
    Equivalent(
        "core.nodes.capacity.nothing_open",
        "return not (record.launching or record.removing or record.launching_aside or record.remo"
        "ving_aside or record.spots or record.refused)",
        "return None",
        "where nothing is open nothing is found either: it only saves time",
    ),
    Equivalent(
        "core.nodes.capacity.why_unknown",
        "return ''",
        "return None",
        "it is only asked whether it is true",
    ),
)
