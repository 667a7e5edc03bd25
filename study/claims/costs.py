"""Costs of attention: times of alternatives, measured side by side by `benchmarks/cost.py`, as arms to compare.

One process is what a seed is for a run: alternatives of one length take turns in it, so that their ratio is free of
what differs between processes. Student's t is taken of the logarithms of a process's ratios; estimate, interval and
margin are ratios again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import Field

from study.analysis import labels
from study.analysis.inference import Arm
from study.analysis.tables import Block, Column, Row, Table
from study.claims.contrasts import Weighted
from study.claims.schema import Claim, Question
from study.claims.verdicts import NOT_RUN, Verdict, conclude
from study.config import Attention
from study.errors import InputError
from study.records import Provenance, Section
from study.store import read_section

FILE = "cost.json"
WHERE = "one site"
"""Text in place of a corpus."""
DEFAULTS = {name: Attention.model_fields[name].default for name in ("reach", "score", "heads")}
AWAITS = "awaits `python benchmarks/cost.py --write`, and is not asked of --runs"


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
    milliseconds: list[float] = Field(description="Processor time of a batch; the median of the rounds of a process.")
    megabytes: float = Field(description="Largest sum of what was allocated, beyond parameters and inputs.")


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

    @cached_property
    def processes(self) -> int:
        """Number of measurements."""
        return len(self.measured[0].milliseconds)

    def one(self, chosen: Mapping[str, object], where: str = "") -> Measured:
        """Return the alternative that is meant; `where` begins a complaint.

        Raises:
            InputError: a field that no site has; or there is none, or more than one.
        """
        if unknown := chosen.keys() - Site.model_fields.keys():
            raise InputError(
                f"{where}: expected fields of a site ({', '.join(Site.model_fields)}), got {min(unknown)}."
            )
        found = [m for m in self.measured if all(getattr(m.site, name) == value for name, value in chosen.items())]
        if len(found) != 1:
            told = ", ".join(f"{name}={value}" for name, value in chosen.items())
            raise InputError(
                f"{where}: expected the fields of one measured site, got {told}, which {len(found)} sites have."
            )
        return found[0]


def read(folder: Path | None) -> Costs | None:
    """Return the measurements in a folder of benchmarks; None where there are none.

    Raises:
        InputError: the file is not one that `benchmarks/cost.py` wrote.
    """
    if folder is None or not (folder / FILE).exists():
        return None
    path = folder / FILE
    again = "Write it again with `python benchmarks/cost.py --write`."
    found = read_section(Costs, path, again)
    if len({len(one.milliseconds) for one in found.measured}) != 1 or not found.processes:
        raise InputError(f"{path}: measured: expected every site from every process, got fewer. {again}")
    if min(min(one.milliseconds) for one in found.measured) <= 0 or min(m.megabytes for m in found.measured) <= 0:
        raise InputError(f"{path}: measured: expected times and sizes above 0, got another. {again}")
    return found


def verdict(claim: Claim, question: Question, costs: Costs | None, where: str) -> Verdict:
    """Return the verdict on a question of measured times; `not yet run` where there are none.

    A contrast has one synthetic arm, the logarithm of the ratio, process by process.

    Raises:
        InputError: a contrast names a site that was not measured; `where` begins the line.
    """
    if costs is None:
        return Verdict(claim, question, WHERE, "", NOT_RUN, note=AWAITS)
    weighted = []
    for number, contrast in enumerate(question.contrasts):
        at = f"{where}: contrasts.{number}"
        arm, base = (costs.one(question.where | side, at) for _, side in contrast.sides)
        times = Arm(f"{arm.site} ÷ {base.site}", dict(enumerate(log_ratios(arm, base), 1)))
        note = f"{arm.megabytes / base.megabytes:.2f} times the memory"
        weighted.append(Weighted([(1.0, times)], costs.processes, notes=[note]))
    assert isinstance(question.margin, float)
    return conclude(claim, question, (WHERE, costs.machine), weighted, question.margin)


def log_ratios(arm: Measured, base: Measured) -> list[float]:
    """Differences of log times in each process."""
    return [math.log(a / b) for a, b in zip(arm.milliseconds, base.milliseconds, strict=True)]


def costs_table(costs: Costs) -> Table:
    """Rows are alternatives, columns lengths of sentences."""
    lengths, widths = (sorted({getattr(one.site, name) for one in costs.measured}) for name in ("slots", "width"))
    columns = [Column("arm", "site", "left"), Column("base", "times that of", "left")]
    columns += [Column(f"{what} {n}", f"{what}, S {n}") for what in ("time", "memory") for n in lengths]
    blocks = [Block(f"width {width}", list(_rows(costs, width, lengths))) for width in widths]
    notes = (
        f"One self-attention site over {labels.number(costs.tokens, 0)} words in sentences of S, on {costs.machine}: "
        f"processor time, geometric mean of {costs.processes} processes. Memory: the largest sum of what was "
        "allocated. Forward and backward, or forward alone where it says so. Four heads where no number is said, the "
        "dot product where no score is, a window of 4 words on either side: it is looked up where that is estimated to "
        "be cheaper, else all scores are computed and the others masked.",
    )
    return Table("What attention costs", columns, blocks, notes)


def _rows(costs: Costs, width: int, lengths: list[int]) -> Iterator[Row]:
    sites = [one.site for one in costs.measured if (one.site.width, one.site.slots) == (width, lengths[0])]
    for site in sorted(sites, key=lambda one: not one.training):
        base = _base(site)
        if base == site:
            continue
        texts, numbers = {"arm": _words(site, base), "base": _words(base, site)}, dict[str, float]()
        for slots in lengths:
            arm, under = (costs.one(one.model_dump() | {"slots": slots}) for one in (site, base))
            numbers[f"time {slots}"] = math.exp(fmean(log_ratios(arm, under)))
            numbers[f"memory {slots}"] = arm.megabytes / under.megabytes
        cells = texts | {name: labels.number(value, 2) for name, value in numbers.items()}
        yield Row(cells, numbers={"width": width, **texts, **numbers})


def _base(site: Site) -> Site:
    """Global attention is the base of any other, the dot product of any other score, and one head of several."""
    for field in ("reach", "score", *(["heads"] if site.training else [])):
        if getattr(site, field) != DEFAULTS[field]:
            return site.model_copy(update={field: DEFAULTS[field]})
    return site


def _words(site: Site, other: Site) -> str:
    """Return the fields in which two sites differ; of the first of them, the score too where it is no dot product."""
    words = {"score": site.score, "heads": f"{site.heads} head{'s' * (site.heads > 1)}", "reach": site.reach}
    apart = [name for name in words if getattr(site, name) != getattr(other, name)]
    shown = ["score", *apart] if site.score != DEFAULTS["score"] and "score" not in apart else apart
    return ", ".join([*(words[name] for name in shown), *([] if site.training else ["forward"])])
