"""The kinds of contrast that a claim may ask for: pairs, interactions, slopes, bands, ratios, correlations, in runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Overrides = dict[str, str | int | float | bool | None]
"""Field ↦ value, such as `model.attention.scale: none`."""


class Entry(BaseModel):
    """Immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Pair(Entry):
    """An arm and what it is compared with."""

    arm: Overrides
    baseline: Overrides


class Contrast(Entry):
    """What all contrasts have. `expect` is the sign that the claim predicts; by default, that the arm is better."""

    name: str = Field("", description="In words; made from the arms where it is left out.")
    expect: Literal["higher", "lower", "better", "worse", "different"] = "better"


class Difference(Contrast):
    """arm − baseline. With `best_over` each side is the best of several arms by validation (`select`)."""

    statistic: Literal["difference"] = "difference"
    arm: Overrides
    baseline: Overrides
    best_over: tuple[str, ...] = ()
    select: str = "valid/nll"


class Interaction(Contrast):
    """(arm − baseline) − (minus.arm − minus.baseline)."""

    statistic: Literal["interaction"]
    arm: Overrides
    baseline: Overrides
    minus: Pair


class Trend(Contrast):
    """Slope over a field's values of the arm's score, or of its difference to the baseline."""

    statistic: Literal["trend"]
    arm: Overrides
    baseline: Overrides | None = None
    over: str
    spacing: Literal["linear", "log2", "rank"] = "linear"


class Band(Contrast):
    """How wide the band of good learning rates is, in doublings: arm − baseline.

    The band is the run of neighbouring rates around a seed's best one whose loss is within `within` of it; a rate
    that diverged is outside. Its width is log2(largest / smallest).
    """

    statistic: Literal["band"]
    arm: Overrides
    baseline: Overrides
    over: str = "training.learning_rate"
    within: Annotated[float, Field(gt=0)]


class Ratio(Contrast):
    """What the arm takes ÷ what the baseline takes. Sites of a benchmark, told apart by `costs.Site`'s fields."""

    statistic: Literal["ratio"]
    expect: Literal["higher", "lower", "different"] = "lower"
    arm: Overrides
    baseline: Overrides


class Correlation(Contrast):
    """Spearman's ρ of two metrics: between the means of arms, or within arms over seeds and averaged."""

    statistic: Literal["correlation"]
    between: tuple[str, str]
    level: Literal["arms", "seeds"]

    @property
    def named(self) -> tuple[str, ...]:
        """Every metric."""
        return self.between


class Within(Contrast):
    """One metric less another of the same run: the mean over the runs of an arm.

    `minus` is a metric, several (their mean), or a number that the metric is held against.
    """

    statistic: Literal["within"]
    arm: Overrides
    of: str
    minus: Annotated[str | tuple[str, ...] | float, Field(union_mode="left_to_right")]

    @field_validator("minus")
    @classmethod
    def _something(cls, given: str | tuple[str, ...] | float) -> str | tuple[str, ...] | float:
        if given == ():
            raise ValueError("name a metric, or several, or a number")
        return given

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those whose mean is taken off; none where it is a number."""
        return (self.minus,) if isinstance(self.minus, str) else self.minus if isinstance(self.minus, tuple) else ()

    @property
    def named(self) -> tuple[str, ...]:
        """Every metric."""
        return self.of, *self.metrics


class Costly(Contrast):
    """The share of heads that cost more than the question's margin when they are removed alone, less `minus`, in %."""

    statistic: Literal["costly"]
    arm: Overrides
    minus: float


ALONE = ("band", "correlation", "costly", "ratio", "within")
"""Statistics that cannot stand in one question with others."""

AnyContrast = Annotated[
    Difference | Interaction | Trend | Band | Correlation | Ratio | Within | Costly, Field(discriminator="statistic")
]
