"""Headroom as it is written down: the size of a pod, how many, where and when."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from ebbtide.config.budgets import DURATION_FORM, read_cron, read_duration, read_zone
from ebbtide.config.quantities import AMOUNT, read_cpu_milli, read_memory_mib
from ebbtide.config.section import Section
from ebbtide.model.headroom import Headroom
from ebbtide.model.schedule import CronWindow

MOST_PODS = 10_000


class WindowKeys(Section):
    """When a headroom is kept."""

    cron: Annotated[str, AfterValidator(read_cron)] = Field(
        description="When it begins.",
        json_schema_extra={"allowed": "a cron line of five fields, or @hourly, @daily, @weekly and so on"},
    )
    duration: Annotated[int, BeforeValidator(read_duration), WithJsonSchema({"type": "string"})] = Field(
        description="How long it is kept each time.", json_schema_extra={"allowed": DURATION_FORM}
    )
    zone: Annotated[str, AfterValidator(read_zone)] = Field(
        "UTC",
        description="Time zone of the cron line.",
        json_schema_extra={"allowed": "an IANA time zone such as Europe/Berlin"},
    )


class HeadroomKeys(Section):
    """Room that is kept free as if so many pods of one size ran there."""

    cpu: Annotated[int, BeforeValidator(read_cpu_milli), AMOUNT] = Field(
        description="CPU of one such pod.", json_schema_extra={"allowed": "2, 0.5 or 500m"}
    )
    memory: Annotated[int, BeforeValidator(read_memory_mib), AMOUNT] = Field(
        description="Memory of one such pod, with its unit.",
        json_schema_extra={"allowed": "2Gi, 512Mi or 2GB"},
    )
    count: int = Field(1, ge=1, le=MOST_PODS, description="For how many pods at the same time.")
    pool: str = Field("", description="Only on nodes of this pool; else of any pool without taints.")
    zones: tuple[str, ...] = Field(
        (),
        description="Only in these zones, in all of them together; else in any.",
        json_schema_extra={"allowed": "a list of names, such as [zone-a, zone-b]"},
    )
    schedule: WindowKeys | None = Field(
        None,
        description="When it is kept; always where it is left out.",
        json_schema_extra={"allowed": "cron, duration and zone, as below"},
    )

    def headroom(self) -> Headroom:
        window = self.schedule
        return Headroom(
            cpu_milli=self.cpu,
            memory_mib=self.memory,
            count=self.count,
            pool=self.pool,
            zones=self.zones,
            window=None if window is None else CronWindow(window.cron, window.zone, window.duration),
        )
