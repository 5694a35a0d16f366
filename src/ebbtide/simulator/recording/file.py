"""A recording is one file, `.ebb`: gzip over one JSON object with a version.

    {"ebb": 1, "story": {...}, "recorded": {...},
     "demand": {"default/web": {"at": [0, 300], "replicas": [4, 7]}}}

`story` has the keys of a story. `demand` has the replicas of each workload over time; it is separate
because it is long. `recorded` is what happened at the time, to compare a simulation with. The same
recording gives the same bytes. A file of a newer version is refused.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping, Set
from math import ceil, isfinite
from pathlib import Path
from typing import Any

import msgspec

from ebbtide import typed
from ebbtide.config import Config
from ebbtide.config.section import read_cpu_milli, read_memory_mib
from ebbtide.core.consolidation import game_servers
from ebbtide.core.nodes.room import HOSTNAME_LABEL
from ebbtide.core.prices import CATALOGUE
from ebbtide.errors import ConfigError
from ebbtide.model import names
from ebbtide.model.pool import NodeType

LEFT_OUT = frozenset(
    {
        "cloud", "join", "aws", "hetzner", "metrics", "cluster", "store", "state_table", "logs_table", "api",
        "gate", "prices", "log_format", "log_retention_days", "metrics_addr", "scale_to_zero", "policies",
    }
)  # fmt: skip
"""Sections about how Ebbtide reaches the outside, and about workloads that sleep: what is recorded is how
many replicas there were, those at zero among them."""


def settings_of(written: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """The keys as they are written, with the prices of the pools, which may stand in another file."""
    kept = {key: value for key, value in written.items() if key not in LEFT_OUT}
    if "pools" in kept:
        kept["pools"] = [_pool(pool, config) for pool in kept["pools"]]
    return kept


def _pool(written: Mapping[str, Any], config: Config) -> dict[str, Any]:
    known = config.settings.pool_named(str(written.get("name", "")))
    types = [_type(one, known.type_named(_name(one)) if known else None) for one in written.get("types", ())]
    return {**written, "types": types}


def _name(written: Any) -> str:
    return str(written["name"] if isinstance(written, Mapping) else written)


def _type(written: Any, known: NodeType | None) -> Any:
    if known is None or known == CATALOGUE.get(known.name):
        return written
    keys: dict[str, Any] = {
        "name": known.name,
        "cpu": f"{known.allocatable.cpu_milli}m",
        "memory": f"{known.allocatable.memory_mib}Mi",
        "pods": known.max_pods,
    }
    for name, price in (("price", known.price), ("spot_price", known.spot_price)):
        if price is not None:
            keys |= {name: str(price.per_hour), "currency": price.currency}
    return keys


UNDERSTOOD = frozenset(
    (*game_servers.KEYS, *names.SAFE_TO_EVICT, *names.DO_NOT_DISRUPT, names.SAFE_LOCAL_VOLUMES)
)
"""Annotations that decide about evictions. All others may say anything, and so may labels."""
PLAIN = frozenset(
    (*game_servers.TIERS_MIB, game_servers.CUSTOM, *game_servers.PLANS, "running", "starting", "stopping")
)
OTHER = "other"
"""Instead of a value that is none of those that Ebbtide knows: it is none of them, too."""
SYSTEM_PRIORITY = "system-"


def anonymised(recording: Recording) -> Recording:
    spaces, keys = _Numbers("ns"), _Numbers("workload")
    nodes = _Numbers("node")
    story = dict(recording.story)
    story["name"] = "a recording without names"
    asked = {pair for one in story.get("workloads", ()) for pair in one.get("node_selector", {}).items()}
    story["workloads"] = [_workload(one, spaces, keys, nodes) for one in story.get("workloads", ())]
    story["nodes"] = [_node(one, nodes, asked) for one in story.get("nodes", ())]
    demand = {}
    for key, series in recording.demand.items():
        namespace, _, _ = key.rpartition("/")
        demand[f"{spaces.of(namespace)}/{keys.of(key)}"] = series
    kind = recording.recorded.source.partition(" ")[0]
    recorded = msgspec.structs.replace(recording.recorded, source=kind)
    return Recording(recording.ebb, story, demand, recorded)


def _workload(written: dict[str, Any], spaces: _Numbers, keys: _Numbers, nodes: _Numbers) -> dict[str, Any]:
    namespace = written.get("namespace", "default")
    kept = {name: value for name, value in written.items() if name != "labels"}
    kept["name"] = keys.of(f"{namespace}/{written['name']}")
    kept["namespace"] = spaces.of(namespace)
    if "annotations" in kept:
        kept["annotations"] = {
            key: value if value in PLAIN or value in ("true", "false") or value.isdecimal() else OTHER
            for key, value in kept["annotations"].items()
            if key in UNDERSTOOD
        }
    if not kept.get("priority_class", "").startswith(SYSTEM_PRIORITY):
        kept.pop("priority_class", None)
    if HOSTNAME_LABEL in kept.get("node_selector", {}):
        named = nodes.of(kept["node_selector"][HOSTNAME_LABEL])
        kept["node_selector"] = {**kept["node_selector"], HOSTNAME_LABEL: named}
    if "on" in kept:
        kept["on"] = [nodes.of(name) for name in kept["on"]]
    return kept


def _node(written: dict[str, Any], nodes: _Numbers, asked: Set[tuple[str, str]]) -> dict[str, Any]:
    """Of its labels only what a pod selects it by: the others tell its name, address and owner."""
    kept = {**written, "name": nodes.of(written["name"])}
    if "labels" in kept:
        selected = asked & set(kept["labels"].items())
        kept["labels"] = {key: value for key, value in sorted(selected) if key != HOSTNAME_LABEL}
    return kept


class _Numbers:
    """The same name gets the same number."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        return self._known.setdefault(name, f"{self._kind}-{len(self._known) + 1}")


FILL = 0.85
"""How full the first nodes are."""
AGE_SECONDS = 86_400


def requests_of(workload: Mapping[str, Any]) -> tuple[int, int]:
    """CPU in thousandths and memory in MiB that a pod requests; 0 where it requests none."""
    cpu, memory = workload.get("cpu"), workload.get("memory")
    return read_cpu_milli(cpu) if cpu else 0, read_memory_mib(memory) if memory else 0


def with_first_nodes(recording: Recording, config: Config) -> Recording:
    """Nodes of the first type of the first pool, over its zones. Without them the first minutes would be
    about starting a cluster."""
    pool = config.settings.pools[0]
    offered = pool.types[0].allocatable
    cpu = memory = 0
    for workload in recording.story["workloads"]:
        series = recording.demand.get(f"{workload.get('namespace', 'default')}/{workload['name']}")
        first = series.replicas[0] if series is not None and series.at[0] <= 0 else 0
        asked = requests_of(workload)
        cpu, memory = cpu + first * asked[0], memory + first * asked[1]
    needed = max(cpu / max(offered.cpu_milli, 1), memory / max(offered.memory_mib, 1)) / FILL
    count = min(max(ceil(needed), config.settings.min_workers), config.settings.max_workers)
    nodes: list[dict[str, Any]] = []
    for number, zone in enumerate(pool.zones):
        share = len(range(number, count, len(pool.zones)))
        if share:
            there = {"name": f"start-{number}", "zone": zone, "count": share, "age_sec": AGE_SECONDS}
            nodes.append({**there, "pool": pool.name})
    return Recording(recording.ebb, {**recording.story, "nodes": nodes}, recording.demand, recording.recorded)


VERSION = 1
MAGIC = b"\x1f\x8b"
MOST_BYTES = 2 * 2**30


class Series(msgspec.Struct, frozen=True):
    """From `at[n]` seconds on, `replicas[n]` are asked for."""

    at: list[float]
    replicas: list[int]


class Recorded(msgspec.Struct, frozen=True):
    """What happened while it was recorded; None where the source does not say."""

    source: str = ""
    coverage: dict[str, float] = {}
    """Share of the time, from 0 to 1, that each part was known for."""
    node_hours: float | None = None
    cost: str | None = None
    currency: str = ""
    pending_pod_seconds: float | None = None
    evictions: int | None = None
    launched: int | None = None
    interruptions: int | None = None


class Recording(msgspec.Struct, frozen=True):
    ebb: int
    story: dict[str, Any]
    demand: dict[str, Series] = {}
    recorded: Recorded = Recorded()


class _Header(msgspec.Struct, frozen=True):
    ebb: int


def write_recording(path: Path, recording: Recording) -> int:
    """The size in bytes. It is there whole or not at all."""
    data = gzip.compress(msgspec.json.encode(recording), 6, mtime=0)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(
            f"the recording {path} cannot be written: {error.strerror}; nothing was left behind. Name a file "
            "in a folder that you may write to."
        ) from error
    return len(data)


def is_recording(path: Path) -> bool:
    if path.suffix == ".ebb":
        return True
    try:
        with path.open("rb") as opened:
            return opened.read(2) == MAGIC
    except OSError:
        return False


def read_recording(path: Path) -> Recording:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the recording {path} cannot be read: {error.strerror}; nothing ran. Name a file that `ebbtide "
            "record` wrote."
        ) from error
    try:
        text = _decompressed(data)
        version = typed.decode(text, _Header).ebb
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise ConfigError(
            f"{path} is not a recording, or not the whole of one; nothing ran. Record it again with "
            "`ebbtide record`, or copy it again."
        ) from error
    if version > VERSION:
        raise ConfigError(
            f"the recording {path} has version {version}, this Ebbtide knows {VERSION}; nothing ran. Use the "
            "Ebbtide that recorded it, or a newer one."
        )
    try:
        recording = typed.decode(text, Recording)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"the recording {path} is damaged ({error}); nothing ran. Record it again."
        ) from error
    for name, series in recording.demand.items():
        if wrong := _why_wrong(series):
            raise ConfigError(
                f"the recording {path} is damaged: the demand of {name} {wrong}; nothing ran. Record it "
                "again."
            )
    return recording


def _decompressed(data: bytes) -> bytes:
    """Bounded, since a small file can hold any amount of zeros."""
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    text = stream.decompress(data, MOST_BYTES)
    if not stream.eof or stream.unconsumed_tail:
        raise EOFError("it ends too early, or is too long")
    return text


def _why_wrong(series: Series) -> str:
    if len(series.at) != len(series.replicas):
        return f"has {len(series.at)} times and {len(series.replicas)} values"
    if any(count < 0 for count in series.replicas):
        return "has a negative value"
    later = zip(series.at, series.at[1:], strict=False)
    if not all(map(isfinite, series.at)) or any(after < before for before, after in later):
        return "has times that go back"
    return ""
