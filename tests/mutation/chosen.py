"""Which modules are changed, and which tests are asked."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "ebbtide"

GROUPS: dict[str, tuple[str, ...]] = {
    "operations": ("core/operations",),
    "gates, drain, capacity, sizing": (
        "core/nodes/gates",
        "core/nodes/drain",
        "core/nodes/capacity",
        "core/nodes/sizing",
    ),
    "engine": ("engine",),
    "conditions of every store": (
        "adapters/stores/guards",
        "adapters/stores/memory",
        "adapters/stores/memory_policies",
    ),
    "SQL": (
        "adapters/stores/sql/statements",
        "adapters/stores/sql/policy_statements",
        "adapters/stores/sql/store",
        "adapters/stores/sql/policies",
    ),
    "DynamoDB": (
        "adapters/stores/dynamodb/record",
        "adapters/stores/dynamodb/store",
        "adapters/stores/dynamodb/policies",
        "adapters/stores/dynamodb/policy_table",
    ),
    "node signing and writing": ("adapters/kube/writer",),
    "watch and list reading": ("adapters/kube/watch", "adapters/kube/connection", "adapters/kube/cluster"),
    "guards, scopes and limits of the API": (
        "entrypoints/api/guard",
        "entrypoints/api/site",
        "entrypoints/api/serving",
        "entrypoints/api/wakes",
    ),
    "webhooks and outgoing": ("adapters/webhooks", "outgoing"),
}
"""Below the package: modules, or folders with all that is in them. The score is told for each group."""

TESTS = (
    "tests/unit",
    "tests/contract/stores",
    "tests/stories/test_policies_in_stories.py",
    "tests/stories/test_stories.py",
    "tests/simulation/test_crash_table.py",
    "tests/simulation/test_crash_table_consolidation.py",
    "tests/simulation/test_crash_table_lanes.py",
    "tests/simulation/test_crash_table_replacing.py",
    "tests/simulation/test_declaration_crashes.py",
    "tests/simulation/test_gate_crashes.py",
    "tests/simulation/test_incidents.py",
    "tests/simulation/test_mass_loss.py",
    "tests/simulation/test_steady.py",
    "tests/simulation/test_wake_crashes.py",
    "tests/integration/api",
    "tests/integration/test_outgoing.py",
    "tests/integration/test_security_claims.py",
    "tests/integration/test_webhooks.py",
    "tests/integration/kube/test_evictions.py",
    "tests/integration/kube/test_incomplete_answers.py",
    "tests/integration/kube/test_mapping.py",
    "tests/integration/kube/test_mapping_rules.py",
    "tests/integration/kube/test_watch.py",
)
LEFT_OUT = (
    "tests/unit/packing",
    "tests/unit/consolidation/test_large.py",
    "tests/contract/stores/test_policy_processes.py",
    "tests/contract/stores/test_processes.py",
    "tests/contract/stores/test_wake_race_processes.py",
)
"""They take long and reach what others reach, or act in processes of their own, which no fork changes."""


def files(*only: str) -> list[Path]:
    """Those of GROUPS, or those of them whose dotted name begins with one of `only`."""
    found = []
    for each in (each for group in GROUPS.values() for each in group):
        place = PACKAGE / each
        found += sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    return [file for file in found if file.is_file() and name_of(file).startswith(only or ("",))]


def gone() -> list[str]:
    """What GROUPS names and is no longer there: it was moved, and must be named as it is now."""
    named = [each for group in GROUPS.values() for each in group]
    return [
        each for each in named if not (PACKAGE / each).is_dir() and not (PACKAGE / f"{each}.py").is_file()
    ]


def group_of(module: str) -> str:
    """By its dotted name below the package."""
    path = module.replace(".", "/")
    for group, places in GROUPS.items():
        if any(path == place or path.startswith(f"{place}/") for place in places):
            return group
    raise LookupError(f"{module} belongs to no group")


def name_of(file: Path) -> str:
    """Dotted, below the package."""
    return ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
