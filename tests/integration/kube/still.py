"""A cloud, metrics, inbox and notifier in which nothing happens, for measuring the rest."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ebbtide.errors import Final
from ebbtide.model.effect import Launch
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import SpotNotice
from ebbtide.model.snapshot import Instance, Reading


class Still:
    def __init__(self, names: Sequence[str]) -> None:
        self._instances = [Instance(f"i-{name}", f"test://i-{name}", pool="general") for name in names]

    def launch(self, effect: Launch) -> Instance:
        raise Final("this cloud launches nothing")

    def terminate(self, instance_id: str) -> None:
        raise Final("this cloud ends nothing")

    def list_instances(self) -> Sequence[Instance]:
        return self._instances

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        return Reading(0.5, int(time.time()))

    def receive(self) -> Sequence[SpotNotice]:
        return ()

    def acknowledge(self, notice: SpotNotice) -> None:
        return

    def notify(self, entry: LogEntry) -> None:
        return


class Willing(Still):
    """A cloud that launches at once whatever it is asked for."""

    def launch(self, effect: Launch) -> Instance:
        slot = effect.slot
        made = Instance(
            f"i-{slot.key}",
            f"test://i-{slot.key}",
            slot.key,
            slot.pool,
            slot.zone,
            slot.instance_type,
            slot.market,
            launched_at=int(time.time()),
        )
        self._instances.append(made)
        return made
