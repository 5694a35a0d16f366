"""The keys of an expectation: five forms, told apart by the key that only one of them has."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from ebbtide.config.section import Section
from ebbtide.simulator.story.values import Seconds

Act = Literal["launch", "soft_taint", "cordon", "uncordon", "evict", "terminate", "delete_node", "scale"]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Many = Annotated[Count | None, Field(json_schema_extra={"allowed": "a whole number from 0 to 1000000"})]


class _Window(Section):
    after: Seconds | None = Field(None, description="Only from this time on.")
    before: Seconds | None = Field(None, description="Only before this time.")

    @model_validator(mode="after")
    def _not_empty(self) -> _Window:
        if self.after is not None and self.before is not None and self.after >= self.before:
            raise ValueError(f"has no time between after ({self.after:g}) and before ({self.before:g})")
        return self

    def holds(self, at: float) -> bool:
        return (self.after is None or at >= self.after) and (self.before is None or at < self.before)


class _OfAct(_Window):
    node: str | None = Field(None, min_length=1, description="Only acts on this node.")
    pod: str | None = Field(None, min_length=1, description="Only acts on this pod.")
    workload: str | None = Field(None, min_length=1, description="Only acts on this workload and its pods.")
    pool: str | None = Field(None, min_length=1, description="Only acts on nodes of this pool.")
    market: Literal["on-demand", "spot"] | None = Field(
        None, description="Only acts on nodes bought in this market."
    )


class NeverKeys(_OfAct):
    """Something that must not be done."""

    never: Act = Field(description="What must not be done.")


class HappensKeys(_OfAct):
    """Something that must be done."""

    happens: Act = Field(description="What must be done.")
    at_least: Many = Field(None, description="So often; else once.")
    at_most: Many = Field(None, description="Not more often.")

    @model_validator(mode="after")
    def _in_order(self) -> HappensKeys:
        if self.at_most is not None and self.at_least is not None and self.at_least > self.at_most:
            raise ValueError(f"asks for at least {self.at_least} and at most {self.at_most}")
        return self

    @property
    def least(self) -> int:
        """Once, where nothing is said but how often at most: then it need not happen."""
        if self.at_least is not None:
            return self.at_least
        return 0 if self.at_most is not None else 1


class EndKeys(Section):
    """The cluster when the story ends."""

    workers: Many = Field(None, description="Worker nodes in the cluster.")
    waiting: Many = Field(None, description="Pods without a node.")
    cordoned: Many = Field(None, description="Workers that take no pods.")
    open_operations: Many = Field(None, description="Operations and answers to spot notices.")


class AtEndKeys(Section):
    """How it must end."""

    at_end: EndKeys = Field(description="What must be so when the story ends.")


class AtKeys(Section):
    """How a workload must be at a time."""

    at: Seconds = Field(description="When, in seconds from the start.")
    replicas: dict[str, Count] | None = Field(
        None,
        description="What workloads ask for at that time.",
        json_schema_extra={"allowed": "pairs of a workload and a number"},
    )
    running: dict[str, Count] | None = Field(
        None,
        description="Pods of workloads that run at that time.",
        json_schema_extra={"allowed": "pairs of a workload and a number"},
    )

    @model_validator(mode="after")
    def _something(self) -> AtKeys:
        if self.replicas is None and self.running is None:
            raise ValueError("says a time and nothing else; allowed next to it: replicas, running")
        return self


class SaysKeys(_Window):
    """A sentence that some tick must say."""

    says: str = Field(min_length=1, description="Some tick's sentence contains it.")


FORMS: dict[str, type[Section]] = {
    "never": NeverKeys,
    "happens": HappensKeys,
    "at_end": AtEndKeys,
    "says": SaysKeys,
    "at": AtKeys,
}


def _form(value: Any) -> str | None:
    if isinstance(value, dict):
        return next((f"<{name}>" for name in FORMS if name in value), None)
    return next((f"<{name}>" for name, form in FORMS.items() if isinstance(value, form)), None)


TAGS = {f"<{name}>": form for name, form in FORMS.items()}
"""Marks that the choice of a form leaves in the place of a problem."""

Expectation = Annotated[
    Annotated[NeverKeys, Tag("<never>")]
    | Annotated[HappensKeys, Tag("<happens>")]
    | Annotated[AtEndKeys, Tag("<at_end>")]
    | Annotated[SaysKeys, Tag("<says>")]
    | Annotated[AtKeys, Tag("<at>")],
    Discriminator(_form),
]
