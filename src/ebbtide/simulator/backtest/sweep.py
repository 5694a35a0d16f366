"""Many runs, one after the other or through joblib on other processes and machines, and the candidates next
to each other: means over the seeds, their spread, and which ones nothing else beats.

    Sweep(results, Machines(4)).play(works)      # four processes of this machine

A run depends on nothing but its work, so where it is played changes nothing in its result. What is known
already is not played again, and a result is kept as soon as it is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib.util import find_spec
from statistics import fmean
from typing import Any
from urllib.parse import urlsplit

from ebbtide import __version__
from ebbtide.errors import Usage
from ebbtide.extras import how_to_add, how_to_add_library
from ebbtide.outgoing import connected
from ebbtide.simulator.backtest.runs import AS_RECORDED, Results, Run, Work, play_work
from ebbtide.simulator.recording.file import Recorded

DOUBTFUL = 0.10
"""A simulation that is further off than this is not to be relied on."""


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate, over all seeds."""

    name: str
    seeds: int
    cost: Decimal
    cost_low: Decimal
    cost_high: Decimal
    currency: str
    node_hours: float
    pending_pod_seconds: float
    pending_low: float
    pending_high: float
    wait_p95: float
    wait_p99: float
    evictions: float
    launched: float
    interruptions: float
    hours_asleep: float
    wakes: float
    violations: tuple[str, ...]
    best: bool
    """No other candidate is as good in cost, waiting and evictions and better in one of them."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well the simulation agrees with what happened in one respect."""

    what: str
    recorded: float
    simulated: float

    @property
    def off(self) -> float:
        """As a share of what was recorded."""
        if self.recorded == self.simulated:
            return 0.0
        return (self.simulated - self.recorded) / self.recorded if self.recorded else float("inf")

    @property
    def doubtful(self) -> bool:
        return abs(self.off) > DOUBTFUL


def rows_of(runs: Sequence[Run]) -> list[Row]:
    names = list(dict.fromkeys(run.candidate for run in runs))
    found = [_row(name, [run for run in runs if run.candidate == name]) for name in names]
    front = _front(found)
    return [replace(one, best=one.name in front) for one in found]


def agreements(recorded: Recorded, rows: Sequence[Row]) -> list[Agreement]:
    """Of the settings that were in force; nothing where the source has no data on nodes and waiting."""
    played = next(row for row in rows if row.name == AS_RECORDED)
    found = []
    if recorded.node_hours is not None:
        found.append(Agreement("node-hours", recorded.node_hours, played.node_hours))
    if recorded.pending_pod_seconds is not None:
        found.append(Agreement("waiting", recorded.pending_pod_seconds, played.pending_pod_seconds))
    return found


def _row(name: str, runs: Sequence[Run]) -> Row:
    costs = [Decimal(run.cost) for run in runs]
    waits = [run.pending_pod_seconds for run in runs]

    def mean(of: Callable[[Run], float]) -> float:
        return round(fmean(map(of, runs)), 3)

    return Row(
        name,
        len(runs),
        (sum(costs, Decimal(0)) / len(costs)).quantize(Decimal("0.01")),
        min(costs),
        max(costs),
        runs[0].currency,
        mean(lambda run: run.node_hours),
        mean(lambda run: run.pending_pod_seconds),
        min(waits),
        max(waits),
        mean(lambda run: run.wait_p95),
        mean(lambda run: run.wait_p99),
        mean(lambda run: run.evictions),
        mean(lambda run: run.launched),
        mean(lambda run: run.interruptions),
        mean(lambda run: run.hours_asleep),
        mean(lambda run: run.wakes),
        tuple(dict.fromkeys(said for run in runs for said in run.violations)),
        True,
    )


def _front(rows: Sequence[Row]) -> set[str]:
    return {one.name for one in rows if not any(_beats(other, one) for other in rows)}


def _beats(one: Row, other: Row) -> bool:
    mine = (float(one.cost), one.pending_pod_seconds, one.evictions)
    theirs = (float(other.cost), other.pending_pod_seconds, other.evictions)
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


BACKENDS = ("loky", "dask", "ray")
ANSWER_SECONDS = 10.0
KEPT = "Finished runs are kept."
OWN_RAY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""For a cluster that is started here. The first one makes Ray listen on the loopback address, which
`_node_ip_address` does not; by the second one it sends no statistics to its makers."""
RAY_IS_SLOW = (
    "Ray gives up when its processes take more than 15 s to load, on a busy machine for example; its reason "
    "is in /tmp/ray/session_latest/logs/raylet.err. Run it again when less is running, or leave out "
    "--backend: processes of this machine need no Ray."
)


@dataclass(frozen=True, slots=True)
class Machines:
    """Where runs are played. One worker without a cluster is this process."""

    workers: int = 1
    backend: str = "loky"
    """loky: processes of this machine."""
    address: str = ""
    """Of a Dask scheduler or a Ray cluster; without one, a small cluster on this machine."""

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise Usage(f"there is no backend {self.backend!r}; nothing ran. Allowed: {', '.join(BACKENDS)}.")
        if self.address and self.backend == "loky":
            raise Usage(
                "--address is that of a cluster, and loky uses this machine only; nothing ran. Add --backend "
                "dask or --backend ray, or leave --address out."
            )

    @property
    def here(self) -> bool:
        return self.workers == 1 and self.backend == "loky"


def _told(number: int, work: Work) -> tuple[int, str, Run]:
    """A run, which one it is, and the version that played it."""
    return number, __version__, play_work(work)


class Sweep:
    """Use it as a context: it ends the connection to a cluster, and no cluster that it did not start."""

    def __init__(
        self, results: Results, machines: Machines, tell: Callable[[Work], None] = lambda _: None
    ) -> None:
        self._results = results
        self._machines = machines
        self._tell = tell
        self._open = ExitStack()
        self._parallel: Any = None
        """One for all that is played: Ray starts its processes again for each."""

    def __enter__(self) -> Sweep:
        if not self._machines.here:
            try:
                self._parallel = _connected(self._machines, self._open)
            except BaseException:
                self._open.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def play(self, works: Sequence[Work]) -> list[Run]:
        """In the order of the works, whatever was finished first."""
        found = {work.key: self._results.find(work) for work in works}
        missing = {work.key: work for work in works if found[work.key] is None}
        for work in works:
            if work.key not in missing:
                self._tell(work)
        for work, played in self._played(list(missing.values())):
            self._results.keep(work, played)
            found[work.key] = played
            self._tell(work)
        return [run for work in works if (run := found[work.key]) is not None]

    def _played(self, works: Sequence[Work]) -> Iterator[tuple[Work, Run]]:
        if self._machines.here:
            yield from ((work, play_work(work)) for work in works)
            return
        for number, version, run in self.each(_told, enumerate(works)):
            if version != __version__:
                raise Usage(
                    f"a worker of the cluster runs Ebbtide {version}, this is {__version__}: its result "
                    f"could differ and was not kept. {KEPT} Install the same version there and run it again."
                )
            yield works[number], run

    def each(self, call: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """What the call gives for each of the arguments on the other processes, in any order."""
        from joblib import delayed

        yield from _answers(self._parallel, (delayed(call)(*one) for one in arguments), self._machines)


def _return_as(machines: Machines) -> str:
    """Ray's backend of joblib gives all results at the end; the others each as it is finished."""
    return "list" if machines.backend == "ray" else "generator_unordered"


def _answers(parallel: Any, calls: Any, machines: Machines) -> Iterator[tuple[int, str, Run]]:
    from joblib.externals.loky.process_executor import BrokenProcessPool

    try:
        yield from parallel(calls)
    except (BrokenProcessPool, OSError) as error:
        raise Usage(
            f"a worker of {machines.backend} ended before its run did: {str(error).partition('.')[0]}. "
            f"{KEPT} It may have run out of memory: run the same command again, with fewer --workers."
        ) from error


def _connected(machines: Machines, opened: ExitStack) -> Any:
    try:
        from joblib import Parallel, parallel_config

        opened.callback(_end_processes)
        if machines.backend == "dask":
            _connect_dask(machines, opened)
        elif machines.backend == "ray":
            _connect_ray(machines, opened)
        opened.enter_context(parallel_config(backend=machines.backend))
        return opened.enter_context(Parallel(machines.workers, return_as=_return_as(machines)))
    except ModuleNotFoundError as error:
        package = {"dask": "distributed", "ray": "ray"}.get(machines.backend, "")
        own = error.name != "joblib" and package
        command = how_to_add_library(package) if own else how_to_add("foresight")
        raise Usage(
            f"--workers and --backend {machines.backend} need {error.name}; nothing ran. Install it: "
            f"`{command}`, or leave both options out."
        ) from error


def _end_processes() -> None:
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def _check_answers(machines: Machines) -> None:
    """Ray tries for minutes where nothing listens. What is no host and port, its library knows."""
    address = machines.address
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.hostname and parts.port:
            connected(parts.hostname, parts.port, False, ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise _unreachable(machines, error) from error


def _connect_dask(machines: Machines, opened: ExitStack) -> None:
    from distributed import Client

    _check_answers(machines)

    try:
        client = (
            Client(machines.address)
            if machines.address
            else Client(n_workers=machines.workers, threads_per_worker=1, dashboard_address=None)
        )
    except (OSError, ValueError) as error:
        raise _unreachable(machines, error) from error
    opened.enter_context(client)


def _connect_ray(machines: Machines, opened: ExitStack) -> None:
    if not machines.address:
        for name, value in OWN_RAY.items():
            os.environ.setdefault(name, value)  # read when Ray is imported
    import ray
    from ray.util.joblib import register_ray

    if machines.address.startswith("ray://") and find_spec("grpc") is None:
        install = how_to_add_library("'ray[client]'")
        raise Usage(f"{machines.address} needs Ray's client; nothing ran. Install it: `{install}`.")
    _check_answers(machines)

    try:
        ray.init(
            address=machines.address or None,
            num_cpus=None if machines.address else machines.workers,
            include_dashboard=None if machines.address else False,
            log_to_driver=False,
            logging_level="error",
        )
    except Exception as error:  # Ray raises no more than that where its processes do not start in time
        ray.shutdown()
        raise _unreachable(machines, error) from error
    opened.callback(ray.shutdown)
    register_ray()


def _unreachable(machines: Machines, error: Exception) -> Usage:
    says = str(error).rstrip(".")
    if machines.address:
        return Usage(
            f"{machines.backend} does not answer at {machines.address}: {says}; nothing ran. Check "
            "--address, such as tcp://scheduler:8786 for Dask or ray://head:10001 for Ray."
        )
    hint = RAY_IS_SLOW if machines.backend == "ray" else "Run it again, or leave out --backend."
    return Usage(f"{machines.backend} could not start a cluster here: {says}; nothing ran. {hint}")
