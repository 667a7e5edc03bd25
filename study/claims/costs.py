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
from study.claims.verdicts import Finding, conclude
from study.errors import InputError
from study.schema import Section
from study.store.folder import read_section
from study.store.records import Provenance

FILE = "cost.json"
Positive = Annotated[float, Field(gt=0)]


class Site(Section):
    """An alternative: one self-attention site over sentences of `slots` words."""

    width: int = Field(description="Width of the states; maps and output included, K = V = width / heads.")
    score: str = Field(description="As in a configuration, like the next two.")
    heads: int = Field(description="How many share the width.")
    reach: str = Field(description="global, hard, or local with a window of 4 on either side.")
    slots: int = Field(description="Words of a sentence; a batch has `tokens` of them.")
    training: bool = Field(description="Forward and backward; false: forward alone, as when translating.")


class Measured(Section):
    """Measurements of one alternative."""

    site: Site
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
        return f"{self.provenance.device}, {self.threads} thread{'s' * (self.threads > 1)}"

    def one(self, chosen: Mapping[str, object]) -> Measured:
        """Return the alternative that is meant.

        Raises:
            InputError: there is none, or more than one.
        """
        found = [m for m in self.measured if m.site.model_dump().items() >= chosen.items()]
        if len(found) != 1:
            fields = f"the fields of one measured site ({', '.join(Site.model_fields)})"
            raise InputError(f"expected {fields}, got {chosen}, which {len(found)} sites have.")
        return found[0]


def read(folder: Path) -> Costs | None:
    """Return the measurements in a folder of results; None where there are none.

    Raises:
        InputError: the file is not one that `benchmarks/cost.py` wrote.
    """
    path = folder / "benchmarks" / FILE
    if not path.exists():
        return None
    return read_section(Costs, path, "Write it again with `python benchmarks/cost.py --write`.")


def rows(claim: Claim, question: Question, folder: Path) -> list[Finding]:
    """Return the rows of a question of measured times; `not yet run` if the folder of results has none.

    A contrast has one synthetic arm, the logarithm of the ratio, process by process.

    Raises:
        InputError: a contrast names a site that was not measured.
    """
    costs, found = read(folder), []
    for contrast in question.contrasts:
        weighted, machine = Weighted([(1.0, Arm("times", {}, holes=1))], 0), ""
        if costs is not None:
            arm, base = (costs.one(question.where | side) for _, side in contrast.sides)
            pairs = zip(arm.milliseconds, base.milliseconds, strict=True)
            times, machine = {process: math.log(a / b) for process, (a, b) in enumerate(pairs)}, costs.machine
            note = f"{arm.megabytes / base.megabytes:.2f} times the memory"
            weighted = Weighted([(1.0, Arm("times", times))], len(times), notes=[note])
        limit, measure = math.log(float(question.margin or 1)), Measure(question.metric)
        found.append(Finding(claim, question, contrast, "one site", machine, measure, weighted, limit))
    conclude(found)
    return found
