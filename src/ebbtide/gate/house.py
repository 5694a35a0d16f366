"""What a keeper is given, and who judges for each protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ebbtide.gate.eta import Expects, nothing_known
from ebbtide.gate.http import judge_http
from ebbtide.gate.judge import Heard, Verdict, judge_tcp
from ebbtide.gate.knocking import Wake
from ebbtide.gate.limits import Limits
from ebbtide.gate.minecraft import judge_minecraft
from ebbtide.gate.passing import Dial
from ebbtide.gate.routes import Backends, Routes
from ebbtide.model.gate import Gate, GateProtocol

Judge = Callable[[Gate, Heard], Verdict | None]
JUDGES: Mapping[GateProtocol, Judge] = {
    GateProtocol.TCP: judge_tcp,
    GateProtocol.HTTP: judge_http,
    GateProtocol.MINECRAFT: judge_minecraft,
}


@dataclass(frozen=True, slots=True)
class House:
    routes: Routes
    backends: Backends
    wake: Wake
    lost: Callable[[], None] = lambda: None
    """A connection came for a port that stands for nothing: read the table again."""
    limits: Limits = field(default_factory=Limits)
    dial: Dial | None = None
    """How pods are reached, where that is not by their addresses."""
    expects: Expects = nothing_known
