"""Table of measured attention sites: every alternative's time and memory, times those of its base."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from study.analysis import labels
from study.analysis.tables import Block, Column, Row, Table
from study.claims.costs import Costs, Measured, Site, log_ratios
from study.config import Attention


def table(costs: Costs) -> Table:
    """Rows are alternatives, columns lengths of sentences."""
    lengths = sorted({one.site.slots for one in costs.measured})
    columns = [Column("arm", "site", "left"), Column("base", "times that of", "left")]
    columns += [Column(f"time {n}", f"time, S {n}") for n in lengths]
    columns += [Column(f"memory {n}", f"memory, S {n}") for n in lengths]
    widths = sorted({one.site.width for one in costs.measured})
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
        cells = {"arm": _said(site, base), "base": _said(base, site)}
        numbers: dict[str, str | float] = {"width": width, **cells}
        for slots in lengths:
            arm, under = (costs.one(one.model_dump() | {"slots": slots}) for one in (site, base))
            found = {"time": _ratio(arm, under), "memory": arm.megabytes / under.megabytes}
            cells |= {f"{what} {slots}": labels.number(value, 2) for what, value in found.items()}
            numbers |= {f"{what} {slots}": value for what, value in found.items()}
        yield Row(cells, numbers=numbers)


def _base(site: Site) -> Site:
    """Global attention is the base of any other, the dot product of any other score, and one head of several."""
    for field in ("reach", "score", *(["heads"] if site.training else [])):
        if getattr(site, field) != _default(field):
            return site.model_copy(update={field: _default(field)})
    return site


def _default(field: str) -> Any:
    return Attention.model_fields[field].default


def _said(site: Site, other: Site) -> str:
    """Return the fields in which two sites differ; of the first of them, the score too where it is no dot product."""
    apart = [name for name in ("score", "heads", "reach") if getattr(site, name) != getattr(other, name)]
    shown = ["score", *apart] if site.score != _default("score") and "score" not in apart else apart
    words = {"score": site.score, "heads": f"{site.heads} head{'s' * (site.heads > 1)}", "reach": site.reach}
    return ", ".join([*(words[name] for name in shown), *([] if site.training else ["forward"])])


def _ratio(arm: Measured, base: Measured) -> float:
    """Geometric mean over processes."""
    logs = log_ratios(arm, base)
    return math.exp(sum(logs) / len(logs))
