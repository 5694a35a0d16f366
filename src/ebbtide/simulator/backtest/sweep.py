"""Many runs, one after the other or through joblib on other processes and machines.

    Sweep(results, Machines(4)).play(works)      # four processes of this machine

A run depends on nothing but its work, so where it is played changes nothing in its result. What is known
already is not played again, and a result is kept as soon as it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ebbtide import __version__
from ebbtide.errors import Usage
from ebbtide.extras import how_to_add, how_to_add_library
from ebbtide.simulator.backtest.runs import Results, Run, Work, play_work

BACKENDS = ("loky", "dask", "ray")
KEPT = "Finished runs are kept."


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

    def __enter__(self) -> Sweep:
        if not self._machines.here:
            _connect(self._machines, self._open)
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
        from joblib import Parallel, delayed

        calls = (delayed(_told)(number, work) for number, work in enumerate(works))
        parallel = Parallel(self._machines.workers, return_as=_return_as(self._machines))
        for number, version, run in _answers(parallel, calls, self._machines):
            if version != __version__:
                raise Usage(
                    f"a worker of the cluster runs Ebbtide {version}, this is {__version__}: its result "
                    f"could differ and was not kept. {KEPT} Install the same version there and run it again."
                )
            yield works[number], run


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


def _connect(machines: Machines, opened: ExitStack) -> None:
    try:
        from joblib import parallel_config

        opened.callback(_end_processes)
        if machines.backend == "dask":
            _connect_dask(machines, opened)
        elif machines.backend == "ray":
            _connect_ray(machines, opened)
        opened.enter_context(parallel_config(backend=machines.backend))
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


def _connect_dask(machines: Machines, opened: ExitStack) -> None:
    from distributed import Client

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
    import ray
    from ray.util.joblib import register_ray

    try:
        ray.init(
            address=machines.address or None,
            num_cpus=None if machines.address else machines.workers,
            include_dashboard=None if machines.address else False,
            log_to_driver=False,
        )
    except Exception as error:  # Ray raises no more than that where its processes do not start in time
        ray.shutdown()
        raise _unreachable(machines, error) from error
    opened.callback(ray.shutdown)
    register_ray()


def _unreachable(machines: Machines, error: Exception) -> Usage:
    where = machines.address or "a cluster on this machine"
    return Usage(
        f"{machines.backend} does not answer at {where}: {error}; nothing ran. Check --address, such as "
        "tcp://scheduler:8786 for Dask or ray://head:10001 for Ray."
    )
