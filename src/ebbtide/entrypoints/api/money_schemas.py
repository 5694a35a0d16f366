"""What the API answers about money. Amounts are decimals in strings, each with its currency."""

from __future__ import annotations

from pydantic import Field

from ebbtide.entrypoints.views.schemas import Shape


class CostPointShape(Shape):
    at: int
    per_hour: str
    unpriced: int
    workers: int | None = None
    pending: int | None = None


class CostsShape(Shape):
    per_hour: str | None
    currency: str
    unpriced: int = Field(description="Workers whose price is not known; no amount includes them.")
    last_day: str | None = Field(description="Paid in the last 24 hours, as far as it was seen.")
    points: list[CostPointShape]


class PriceShape(Shape):
    pool: str
    instance_type: str
    market: str
    per_hour: str | None
    currency: str
    source: str
    as_of: str


class PricesShape(Shape):
    prices: list[PriceShape]


class FrontierShape(Shape):
    pods_moved: int
    cost_per_hour: str


class CandidateShape(Shape):
    savings_per_hour: str
    cost_before: str
    cost_after: str
    bound: str = Field(description="No set of nodes for these pods costs less.")
    currency: str
    moves: int
    launches: int
    removed: list[str]
    frontier: list[FrontierShape]


class LookedAt(Shape):
    name: str
    instance_type: str
    age_seconds: int
    idle_seconds: int
    pods: int
    cost_per_hour: str | None
    kept: bool
    why: str


class ConsolidationShape(Shape):
    refused: str = Field(description="The first check that did not hold; empty where all did.")
    checks: list[str]
    candidate: CandidateShape | None
    nodes: list[LookedAt]


class SavedShape(Shape):
    """By what. The parts do not overlap; their sum is what was saved."""

    scale_down: str
    consolidation: str
    spot: str
    sleep: str


class SpendingDayShape(SavedShape):
    date: str = Field(description="In UTC.")
    paid: str
    whole: bool = Field(description="Whether the cost was known for all 24 hours.")


class ProjectionShape(Shape):
    expected: str
    low: str | None = Field(description="From the cheapest week in a row; null where one day is known.")
    high: str | None
    days: int = Field(description="Whole days that it rests on.")


class ShareShape(Shape):
    name: str
    per_hour: str
    idle_per_hour: str = Field(description="Of that, what no pod asks for.")
    count: int = Field(description="Nodes of a pool, pods of a namespace.")
    unpriced: int
    slept: str = Field(description="Of a namespace: what sleep saved in the period.")


class SpendingShape(Shape):
    currency: str = Field(description="Empty where no price is known, or prices are in several currencies.")
    since: int
    until: int
    paid: str
    saved: SavedShape
    compared_with: str = Field(description="What would have been paid, by the rule that is used for it.")
    month: ProjectionShape | None = Field(description="Null until one whole day is known.")
    days: list[SpendingDayShape]
    pools: list[ShareShape]
    namespaces: list[ShareShape]


class TriedShape(Shape):
    """One candidate of a backtest."""

    name: str
    cost_a_month: str
    saves_a_month: str | None = Field(description="Compared with today's settings; negative: it costs more.")
    pending_seconds_a_day: float = Field(description="Of all pods, added up.")
    wait_p95: float = Field(description="Seconds, of the pods that did not fit at once.")
    evictions_a_day: float
    front: bool = Field(description="No other is as good in cost, pending time and evictions.")
    today: bool = Field(description="The settings of the cluster when the backtest was published.")


class BacktestShape(Shape):
    published_at: int
    recording: str
    seconds: float = Field(description="How long the recording lasts.")
    currency: str = Field(description="Empty where no price is known.")
    calibration: str
    tried: list[TriedShape]


class LastBacktestShape(Shape):
    backtest: BacktestShape | None = Field(description="Null until one is published.")
