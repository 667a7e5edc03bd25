"""Costs of attention: times of alternatives, measured side by side by `benchmarks/cost.py`, as arms to compare.

One process is what a seed is for a run: alternatives of one length take turns in it, so that their ratio is free of
what differs between processes. Student's t is taken of the logarithms of a process's ratios; estimate, interval and
margin are ratios again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from study.analysis.inference import Arm
from study.analysis.measures import Measure
from study.claims.contrasts import Weighted
from study.claims.schema import Claim, Question
from study.claims.verdicts import Answer, Comparison, conclude
from study.errors import InputError
from study.schema import Section
from study.store.folder import read_section
from study.store.records import Provenance

FILE = "cost.json"
Positive = Annotated[float, Field(gt=0)]


class TimedSite(Section):
    """An alternative: one self-attention site over sentences of `slots` words."""

    width: int = Field(description="Width of the states; maps and output included, K = V = width / heads.")
    score: str = Field(description="As in a configuration, like the next two.")
    heads: int = Field(description="How many share the width.")
    reach: str = Field(description="global, hard, or local with a window of 4 on either side.")
    slots: int = Field(description="Words of a sentence; a batch has `tokens` of them.")
    training: bool = Field(description="Forward and backward; false: forward alone, as when translating.")


class Measured(Section):
    """Measurements of one alternative."""

    site: TimedSite
    milliseconds: list[Positive] = Field(description="Processor time of a batch; the median of a process's rounds.")
    megabytes: Positive = Field(description="Largest sum of what was allocated, beyond parameters and inputs.")


class Costs(Section):
    """The file."""

    schema_version: Literal[1] = Field(1, description="Version of this schema.")
    provenance: Provenance
    threads: int = Field(description="Threads of a process.")
    rounds: int = Field(description="How often a process measured every site, in an order drawn anew.")
    tokens: int = Field(description="Words of a batch, whatever the length of its sentences.")
    measured: list[Measured]

    @property
    def machine(self) -> str:
        """`AMD EPYC, 1 thread`."""
        return f"{self.provenance.device}, {self.threads} {'thread' if self.threads == 1 else 'threads'}"

    def alternative(self, fields: Mapping[str, object]) -> Measured:
        """Return the alternative with these fields.

        Raises:
            InputError: there is none, or more than one.
        """
        measured = [each for each in self.measured if each.site.model_dump().items() >= fields.items()]
        if len(measured) != 1:
            names = f"the fields of one measured site ({', '.join(TimedSite.model_fields)})"
            raise InputError(f"expected {names}, got {fields}, which {len(measured)} sites have.")
        return measured[0]


def read(folder: Path) -> Costs | None:
    """Return the measurements in a folder of results; None where there are none.

    Raises:
        InputError: the file is not one that `benchmarks/cost.py` wrote.
    """
    path = folder / "benchmarks" / FILE
    if not path.exists():
        return None
    return read_section(Costs, path, "Write it again with `python benchmarks/cost.py --write`.")


def answer(claim: Claim, question: Question, folder: Path) -> Answer:
    """Answer a question of measured times; `not yet run` if the folder of results has none.

    A contrast has one synthetic arm, the logarithm of the ratio, process by process.

    Raises:
        InputError: a contrast names a site that was not measured.
    """
    costs = read(folder)
    comparisons = []
    for contrast in question.contrasts:
        if costs is None:
            weighted = Weighted([(1.0, Arm("times", {}, holes=1))], 0)
        else:
            weighted = _ratios(costs, *(question.where | side for _, side in contrast.sides))
        comparison = Comparison(
            claim=claim,
            question=question,
            contrast=contrast,
            corpus="one site",
            family=costs.machine if costs else "",
            measure=Measure(question.metric),
            weighted=weighted,
            margin=math.log(float(question.margin or 1)),
        )
        comparisons.append(comparison)
    return conclude(comparisons)


def _ratios(costs: Costs, arm: Mapping[str, object], baseline: Mapping[str, object]) -> Weighted:
    """Return the logarithms of the ratios of two alternatives' times, one for each process."""
    above, below = costs.alternative(arm), costs.alternative(baseline)
    pairs = zip(above.milliseconds, below.milliseconds, strict=True)
    ratios = {process: math.log(time / base_time) for process, (time, base_time) in enumerate(pairs)}
    note = f"{above.megabytes / below.megabytes:.2f} times the memory"
    return Weighted([(1.0, Arm("times", ratios))], len(ratios), notes=[note])
