"""Costs of attention: times of alternatives, measured side by side by `benchmarks/cost.py`, as a table.

One process is what a seed is for a run: alternatives of one length take turns in it, so that their ratio is free of
what differs between processes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from study.analysis.inference import Arm, contrast
from study.analysis.labels import interval, number, setting
from study.analysis.tables import Row, Table
from study.schema import Section
from study.store.folder import read_section
from study.store.records import Provenance

FILE = "cost.json"
WINDOW = 4
"""Words to either side that a local reach of the benchmark sees."""
Positive = Annotated[float, Field(gt=0)]


class TimedSite(Section):
    """An alternative: one self-attention site over sentences of `slots` words."""

    width: int = Field(description="Width of the states; projections and output included, K = V = width / heads.")
    score: str = Field(description="As in a configuration, like the next two.")
    heads: int = Field(description="How many share the width.")
    reach: str = Field(description="global, hard, or local with a window of 4 on either side.")
    slots: int = Field(description="Words of a sentence; a batch has `tokens` of them.")
    training: bool = Field(description="Forward and backward; false: forward alone, as when translating.")

    @property
    def words(self) -> str:
        """`4 heads, width 64`; `one sampled slot, dot, in translation`."""
        if self.reach == "global":
            return f"{self.heads} heads, width {self.width}"
        window = f", {WINDOW} words to either side" if self.reach.startswith("local") else ""
        use = "" if self.training else ", in translation"
        return f"{setting('reach', self.reach)}{window}, {setting('score', self.score)}{use}"


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

    def of(self, site: TimedSite) -> Measured | None:
        """Return the measurements of an alternative; None without any."""
        return next((measured for measured in self.measured if measured.site == site), None)


def read(folder: Path) -> Costs | None:
    """Return the measurements in a folder of results; None where there are none.

    Raises:
        InputError: the file is not one that `benchmarks/cost.py` wrote.
    """
    path = folder / "benchmarks" / FILE
    if not path.exists():
        return None
    return read_section(Costs, path, "Write it again with `python benchmarks/cost.py --write`.")


def compare(folder: Path) -> Table | None:
    """Return the times and sizes of all alternatives as multiples of their baseline's; None where nothing was measured.

    The baseline of several heads is one head of the same width; that of a reach is the global one. A time is the
    geometric mean of the processes' ratios, with Student's 95% interval of their logarithms.

    Raises:
        InputError: see `read`.
    """
    costs = read(folder)
    if costs is None:
        return None
    rows: dict[str, tuple[dict[str, str], dict[str, Any]]] = {}
    lengths = set()
    for measured in costs.measured:
        site, slots = measured.site, measured.site.slots
        lengths.add(slots)
        change = {"heads": 1} if site.reach == "global" else {"reach": "global"}
        base = costs.of(site.model_copy(update=change))
        if base is None or base is measured:
            continue
        ratios = [math.log(time / other) for time, other in zip(measured.milliseconds, base.milliseconds, strict=True)]
        test = contrast([(1.0, Arm("times", dict(enumerate(ratios))))]).mapped(math.exp)
        memory = measured.megabytes / base.megabytes
        arm = {"arm": site.words}
        cells, numbers = rows.setdefault(site.words, (arm, arm | {"processes": len(ratios)}))
        cells[f"time {slots}"] = f"{number(test.difference, 2)} {interval(test.low, test.high, 2, sign=False)}"
        cells[f"memory {slots}"] = number(memory, 2)
        numbers |= {f"time_{slots}": test.difference, f"low_{slots}": test.low, f"high_{slots}": test.high}
        numbers[f"memory_{slots}"] = memory
    columns = {"arm": "self-attention"}
    for quantity in ("time", "memory"):
        for slots in sorted(lengths):
            columns[f"{quantity} {slots}"] = f"{quantity}, {slots} words"
    notes = [
        "Time and memory of several heads ÷ those of one head of the same width, and of a reach ÷ those of global "
        f"attention. 95% intervals over processes, in brackets. Processor time on {costs.machine}, with eager kernels."
    ]
    table_rows = [Row(cells, numbers=numbers) for cells, numbers in rows.values()]
    return Table("costs: time and memory of one self-attention site", columns, table_rows, notes)
