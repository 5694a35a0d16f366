"""Game servers: their tier, and whether one may be moved. Rows 17, 30 and 46, and "Migration Safety"."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ebbtide.model.pod import Pod, PodPhase
from tests.oracle.answers import Meaning, Ruling, no, rule, yes

SIZES_MIB = {"micro": 2048, "small": 4096, "medium": 8192, "large": 16384, "xlarge": 32768}
PREFIX = "ebbtide.dev/"


def words_of(pod: Pod) -> dict[str, str]:
    """What its labels and annotations say of a game server, without the prefix; annotations change, so they
    win."""
    found = dict(pod.labels) | dict(pod.annotations)
    keys = ("plan", "players", "status", "tier")
    return {key: found[PREFIX + key] for key in keys if PREFIX + key in found}


@rule("defaults, row 46", *SIZES_MIB, "custom")
def tier(memory_mib: int) -> Meaning[object]:
    """ "RAM tiers: micro 2 GB, small 4, medium 8, large 16, xlarge 32, any other size custom"; "a request
    within 10 % below a tier's size belongs to that tier"."""
    for name, size in SIZES_MIB.items():
        if Fraction(size * 9, 10) <= memory_mib <= size:
            return Meaning(name, name)
    return Meaning("custom", "custom")


@rule("rows 17, 30", "yes", "no")
def movable(pod: Pod, players: Mapping[str, int]) -> Ruling:
    """ "payperplay or balanced, 0 players, running, at most 8 GB; never reserved, starting, stopping, large,
    xlarge or custom"; "Unknown players: not movable"."""
    words = words_of(pod)
    if not words and pod.full_name not in players:
        return yes("not a game server")
    if words.get("plan") not in ("payperplay", "balanced"):
        return no(f"plan {words.get('plan')}")
    size = words.get("tier") or str(tier(pod.requests.memory_mib).value)
    if size not in ("micro", "small", "medium") or pod.requests.memory_mib > SIZES_MIB["medium"]:
        return no(f"tier {size}, {pod.requests.memory_mib} MiB")
    if words.get("status", "running") != "running" or pod.phase is not PodPhase.RUNNING:
        return no(f"status {words.get('status')}, phase {pod.phase}")
    counts = [words["players"]] if "players" in words else []
    counts += [str(players[pod.full_name])] if pod.full_name in players else []
    if not counts or any(count != "0" for count in counts):
        return no(f"players {counts}")
    return yes("an empty elastic server")
