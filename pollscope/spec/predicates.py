# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of statements that data can confirm or refute: a closed set of predicates over a metric.

A paper's claims (data/claims) and a spec's own (`claims:`) are made of them; the rules for each are in
pollscope.analysis.claims.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pollscope.base.fields import StrictModel

# Of specs and their claims.
NAME_PATTERN = r"^[a-z0-9]+(-[a-z0-9]+)*$"
# In a claim the factor `load` stands for whichever load factor the run has swept.
LOAD = "load"


class Range(StrictModel):
    """A range of levels; a missing end is open."""

    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    below: float | None = None

    def contains(self, level: float) -> bool:
        """Return whether the level lies in the range."""
        return not (
            (self.above is not None and level <= self.above)
            or (self.at_least is not None and level < self.at_least)
            or (self.at_most is not None and level > self.at_most)
            or (self.below is not None and level >= self.below)
        )

    def text(self, show: Any) -> str:
        """Return the range in words: 'above 64'."""
        words = {"above": self.above, "at least": self.at_least, "at most": self.at_most, "below": self.below}
        return " and ".join(f"{word} {show(level)}" for word, level in words.items() if level is not None)


Where = dict[str, float | int | str | Range]


class StatedBounds(StrictModel):
    """Stated lower and upper end; at least one is given."""

    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low is None and self.high is None:
            raise ValueError("at least one of low and high is given")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high})")
        return self


class Within(StatedBounds):
    """The mean of every selected point lies between low and high."""

    kind: Literal["within"]


class EveryTrial(StatedBounds):
    """The value of every single selected trial lies between low and high; no statistics."""

    kind: Literal["every_trial"]


class TrendOver(StrictModel):
    """The metric rises or falls with a factor while all others stay; a smaller change than `flat_within` is flat."""

    kind: Literal["trend"]
    factor: str
    direction: Literal["rises", "falls"]
    flat_within: float = Field(default=0.01, ge=0, description="share of the value at the first level")


class Ratio(StatedBounds):
    """The metric at level `to` over that at level `from`, all other factors equal."""

    kind: Literal["ratio"]
    factor: str
    first: float | int | str = Field(alias="from")
    last: float | int | str = Field(alias="to")


class AverageRatio(StatedBounds):
    """The ratio of the metric at level `to` to that at level `from`, on average over all groups of the other factors.

    Texts seldom say which mean they take, so the arithmetic and the geometric one are both judged.
    """

    kind: Literal["average_ratio"]
    factor: str
    first: float | int | str = Field(alias="from")
    last: float | int | str = Field(alias="to")


class LargestFall(StatedBounds):
    """The largest relative fall, over the groups of the other factors, from the lowest to the highest level."""

    kind: Literal["largest_fall"]
    factor: str


class RisesAbove(StrictModel):
    """Beyond a level the metric rises, and beyond anything seen up to that level."""

    kind: Literal["rises_above"]
    factor: str
    level: float | int


class Linear(StrictModel):
    """The metric rises with a factor, and the means of its levels lie on a straight line."""

    kind: Literal["linear"]
    factor: str
    r_squared: float = Field(gt=0, le=1, description="least share of the means' variance that the line explains")


class Growth(StatedBounds):
    """The growth of the metric from the lowest to the highest level over the growth of the factor itself."""

    kind: Literal["growth"]
    factor: str


class Peak(StrictModel):
    """The level at which the metric is highest lies between low and high, and levels beyond it were measured."""

    kind: Literal["peak"]
    factor: str
    low: float | int
    high: float | int


class Dips(StrictModel):
    """Between two levels the metric falls below what it is at both."""

    kind: Literal["dips"]
    factor: str
    first: float | int = Field(alias="from")
    last: float | int = Field(alias="to")


class RiseShare(StatedBounds):
    """The rise of the metric between two levels over the rise of another metric, trial by trial."""

    kind: Literal["rise_share"]
    factor: str
    first: float | int = Field(alias="from")
    last: float | int = Field(alias="to")
    beside: str = Field(description="the other metric")


class Across(StrictModel):
    """Base of predicates that compare how two levels of a factor change over another."""

    factor: str
    across: str = Field(description="the factor whose levels `of` and `over` are compared")
    of: float | int | str
    over: float | int | str


class RatioOfRatios(StatedBounds, Across):
    """The ratio of the metric at `to` to that at `from`, for level `of` of another factor over the same for `over`."""

    kind: Literal["ratio_of_ratios"]
    first: float | int | str = Field(alias="from")
    last: float | int | str = Field(alias="to")


class Crosses(Across):
    """At the lowest level the metric is lower for `of` than for `over`, at the highest level it is higher."""

    kind: Literal["crosses"]


class SteeperKnee(Across):
    """Up to the same share of what each can carry, the metric grows less for `of` than for `over`."""

    kind: Literal["steeper_knee"]
    beside: str = Field(default="loss_share", description="the metric that tells which levels are beyond saturation")


Predicate = Annotated[
    Within
    | EveryTrial
    | TrendOver
    | Ratio
    | AverageRatio
    | LargestFall
    | RisesAbove
    | Linear
    | Growth
    | Peak
    | Dips
    | RiseShare
    | RatioOfRatios
    | Crosses
    | SteeperKnee,
    Field(discriminator="kind"),
]
# Hardware that a testbed with a virtual NIC lacks; fast-link: a link on which cores meet at their queue.
Need = Literal["line", "pcie", "ddio", "fast-link"]


class OwnClaim(StrictModel):
    """A statement that the author of a spec expects to hold; each run of the spec judges it like a claim of a paper."""

    id: str = Field(pattern=NAME_PATTERN, description="a name for it; lower case, digits, dashes")
    statement: str = Field(min_length=1, description="the expectation in a sentence")
    metric: str = Field(description="a name of the metric dictionary")
    where: Where = Field(default={}, description="levels or ranges of factors and parameters, in base units")
    needs: tuple[Need, ...] = Field(default=(), strict=False, description="judged where a real NIC has these only")
    needs_load: bool = Field(default=False, description="leave out points that do not stand for their load")
    predicate: Predicate
