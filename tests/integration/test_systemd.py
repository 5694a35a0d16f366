"""The units of systemd: what they run is there, and the gate is shut in as the autoscaler is."""

from __future__ import annotations

from pathlib import Path

from scripts.cli_reference import commands

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
Settings = dict[tuple[str, str], str]
OF_THE_GATE = {
    ("Unit", "Description"),
    ("Unit", "After"),
    ("Service", "ExecStart"),
    ("Service", "Environment"),
    ("Service", "TimeoutStopSec"),
    ("Service", "LimitNOFILE"),
    ("Service", "User"),
}
"""What differs from the unit of the autoscaler."""


def settings(name: str) -> Settings:
    found: Settings = {}
    section = ""
    for line in (UNITS / name).read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            assert (section, key) not in found, f"{name} says {key} twice"
            found[section, key] = value
    return found


def test_what_the_units_run_is_there() -> None:
    known = {words[0] for words, _ in commands()} | {"gate"}
    for name, command in (("ebbtide.service", "run"), ("ebbtide-gate.service", "gate")):
        program, word, *rest = settings(name)["Service", "ExecStart"].split()
        assert (program, word) == ("/opt/ebbtide/bin/ebbtide", command)
        assert word in known
        assert rest == ["--config", "/etc/ebbtide/ebbtide.yaml"]


def test_the_gate_is_shut_in_as_the_autoscaler_is_and_shares_its_user_and_store() -> None:
    ours, gate = settings("ebbtide.service"), settings("ebbtide-gate.service")
    different = {key for key in ours.keys() | gate.keys() if ours.get(key) != gate.get(key)}
    assert different == OF_THE_GATE
    # A dynamic user is named after its unit unless the unit says otherwise.
    assert gate["Service", "User"] == "ebbtide"
    mine, its = (set(each["Service", "Environment"].split()) for each in (ours, gate))
    assert its - mine == {"METRICS_ADDR=127.0.0.1:9809"}, "two processes cannot listen on one port"
    assert mine <= its
