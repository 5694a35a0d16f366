"""Pools as they are written down: types by name or defined inline, zones, limits, labels and taints."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from ebbtide.config.nodes import DURATION_FORM, BudgetKeys, Duration
from ebbtide.config.section import AMOUNT, Amount, Section, read_cpu_milli, read_memory_mib, read_price
from ebbtide.core.prices import CATALOGUE, EC2_FAMILIES, HETZNER
from ebbtide.model.pod import Resources, Taint, TaintEffect
from ebbtide.model.pool import NodeType, Pool, PoolLimits, Price
from ebbtide.model.snapshot import Market

BY_NAME, INLINE = "<name>", "<inline>"
"""Marks that the choice between a name and a definition leaves in the place of a problem."""

TYPES_ALLOWED = f"{', '.join(HETZNER)}, {', '.join(EC2_FAMILIES)}, or a definition with name, cpu and memory"
TOO_SMALL = frozenset({"cpx12"})
"""Types that the price list has, and that are not meant for workers."""
NAME = r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"


def _known_type(name: str) -> str:
    if name in CATALOGUE:
        return name
    raise ValueError(f"not a built-in type; allowed: {TYPES_ALLOWED}")


def _form(value: Any) -> str | None:
    if isinstance(value, str):
        return BY_NAME
    return INLINE if isinstance(value, dict | TypeKeys) else None


class TypeKeys(Section):
    """A node type of the user's own."""

    name: str = Field(min_length=1, description="Name of the type, as the cloud calls it.")
    cpu: Annotated[int, BeforeValidator(read_cpu_milli), AMOUNT] = Field(
        description="CPUs that pods can use.", json_schema_extra={"allowed": "4, 3.5 or 3500m"}
    )
    memory: Annotated[int, BeforeValidator(read_memory_mib), AMOUNT] = Field(
        description="Memory that pods can use, with its unit.",
        json_schema_extra={"allowed": "8Gi, 7600Mi or 8GB"},
    )
    pods: int = Field(110, ge=1, le=10_000, description="Pods it can hold.")
    price: Annotated[Amount | None, BeforeValidator(read_price)] = Field(
        None,
        description="On-demand price per hour. Default: from the price file or the built-in list.",
        json_schema_extra={"allowed": "a number above 0"},
    )
    spot_price: Annotated[Amount | None, BeforeValidator(read_price)] = Field(
        None,
        description="Spot price per hour. Default: as above.",
        json_schema_extra={"allowed": "a number above 0"},
    )
    currency: str = Field(
        "EUR",
        pattern=r"^[A-Z]{3}$",
        description="Currency of both prices.",
        json_schema_extra={"allowed": "three capital letters, such as EUR"},
    )
    price_as_of: str = Field(
        "",
        pattern=r"^(\d{4}-\d{2}-\d{2})?$",
        description="The day the prices were read.",
        json_schema_extra={"allowed": "a day as YYYY-MM-DD"},
    )

    def node_type(self) -> NodeType:
        return NodeType(
            name=self.name,
            allocatable=Resources(cpu_milli=self.cpu, memory_mib=self.memory),
            max_pods=self.pods,
            price=self._price(self.price),
            spot_price=self._price(self.spot_price),
        )

    def _price(self, per_hour: Amount | None) -> Price | None:
        if per_hour is None:
            return None
        return Price(
            per_hour=per_hour, currency=self.currency, source="configuration", as_of=self.price_as_of
        )


class LimitKeys(Section):
    """How much all nodes of a pool may offer together."""

    cpu: Annotated[int, BeforeValidator(read_cpu_milli), AMOUNT] | None = Field(
        None,
        description="The most CPUs that all its nodes together offer to pods.",
        json_schema_extra={"allowed": "64, 3.5 or 3500m"},
    )
    memory: Annotated[int, BeforeValidator(read_memory_mib), AMOUNT] | None = Field(
        None,
        description="The most memory that all its nodes together offer to pods, with its unit.",
        json_schema_extra={"allowed": "256Gi, 7600Mi or 8GB"},
    )

    def limits(self) -> PoolLimits | None:
        return None if self.cpu is None and self.memory is None else PoolLimits(self.cpu, self.memory)


class TaintKeys(Section):
    key: str = Field(min_length=1, description="Key of the taint.")
    value: str = Field("", description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(description="What it does.")


TypeEntry = Annotated[
    Annotated[Annotated[str, AfterValidator(_known_type)], Tag(BY_NAME)] | Annotated[TypeKeys, Tag(INLINE)],
    Discriminator(_form),
]


class PoolKeys(Section):
    """A group of nodes that Ebbtide may launch and remove."""

    name: str = Field(
        pattern=NAME,
        description="Name of the pool, unique in the cluster.",
        json_schema_extra={"allowed": "lower-case letters, digits, - and ., 63 at most"},
    )
    types: tuple[TypeEntry, ...] = Field(
        min_length=1,
        description="Types it may launch: built-in names, or definitions as below.",
        json_schema_extra={"allowed": TYPES_ALLOWED},
    )
    zones: tuple[str, ...] = Field(
        min_length=1,
        description="Zones it may launch into.",
        json_schema_extra={"allowed": "a list of names, such as [zone-a, zone-b]"},
    )
    market: Literal["on-demand", "spot"] = Field("on-demand", description="How its nodes are bought.")
    on_demand_fallback: bool = Field(
        True,
        description="For `spot`: launch on demand when the cloud has answered that it has no spot capacity.",
    )
    min: int = Field(0, ge=0, le=100_000, description="The minimum number of workers in this pool.")
    max: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="The maximum number of workers in this pool. `max_workers` still applies.",
    )
    weight: int = Field(
        0,
        ge=0,
        le=1000,
        description="Of the pools that could hold a pending pod, the highest weight is launched from first.",
    )
    limits: LimitKeys | None = Field(
        None,
        description="The most CPU and memory of all its nodes, including those being launched.",
        json_schema_extra={"allowed": "cpu and memory, as below"},
    )
    allow_small: bool = Field(
        False,
        description="Whether it may have the type cpx12, which is too small for most workers.",
    )
    labels: dict[str, str] = Field({}, description="Labels that its nodes carry.")
    taints: tuple[TaintKeys, ...] = Field((), description="Taints that its nodes carry, as below.")
    budgets: tuple[BudgetKeys, ...] = Field(
        (),
        description="Workers that may be in removal at a time, as below; cluster budgets still apply.",
    )

    expire_after: Duration | None = Field(
        None,
        description="Nodes older than this are replaced, one by one. Default: never.",
        json_schema_extra={"allowed": DURATION_FORM},
    )

    def pool(self) -> Pool:
        """With no price but those that stand here; the price book has the others."""
        return Pool(
            name=self.name,
            types=tuple(
                replace(CATALOGUE[t], price=None) if isinstance(t, str) else t.node_type() for t in self.types
            ),
            zones=self.zones,
            market=Market(self.market),
            on_demand_fallback=self.on_demand_fallback,
            min_workers=self.min,
            max_workers=self.max,
            labels=tuple(sorted(self.labels.items())),
            taints=tuple(Taint(t.key, TaintEffect(t.effect), t.value) for t in self.taints),
            budgets=tuple(budget.budget() for budget in self.budgets),
            expire_seconds=self.expire_after or 0,
            weight=self.weight,
            limits=self.limits.limits() if self.limits is not None else None,
        )
