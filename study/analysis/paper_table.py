"""One table over several sweeps and corpora, for a paper: a block for each sweep and part, marks of significance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from study.analysis.comparison import Compared
from study.analysis.labels import NOTHING, arm_words
from study.analysis.tables import Row, Table
from study.scores.metrics import METRICS

LEVELS = (0.05, 0.01, 0.001)
"""A difference has one mark for each level that its Holm p is below."""
MARKS = "* Holm p < .05, ** p < .01, *** p < .001, adjusted over the comparisons of a block, as the 95% intervals are."
LEFT_OUT = ("holm", "entropy", "tokens_per_second")
"""Columns of a sweep's own table that this one lacks."""


def join(sweeps: Mapping[str, Compared]) -> Compared:
    """Return sweeps as one. All numbers are those of the sweep's own table: no test is adjusted across blocks.

    A score has one column, whatever the split. A note stands once, with the sweeps that have it if these are not all.
    The CSV names the sweep of each row, and keeps all columns.

    Args:
        sweeps: name of a sweep ↦ its comparison.
    """
    import pandas as pd

    scores: dict[str, str] = {}
    further: dict[str, str] = {}
    notes: dict[str, list[str]] = {}
    for name, (table, _, _) in sweeps.items():
        for key, head in table.columns.items():
            if key not in LEFT_OUT:
                of_kind = scores if key.partition("/")[0] in METRICS else further
                if of_kind.setdefault(key, head) != head:
                    of_kind[key] = "Δ"
        for note in table.notes:
            notes.setdefault(note.partition("docs/")[0].strip(), []).append(name)
    columns = {"arm": further.pop("arm"), "n": further.pop("n")} | scores | further
    rows, parts, frames = [], [], []
    for name, (table, facets, frame) in sweeps.items():
        for row in table.rows:
            rows.append(_row(name, row, columns, len(sweeps) > 1))
        for part in facets:
            parts.append(replace(part, name=f"{name} {part.name}"))
        frames.append(frame.assign(sweep=name))
    said = [note if len(by) == len(sweeps) else f"{', '.join(by)}: {note}" for note, by in notes.items() if note]
    marks = [MARKS] if "difference" in columns else []
    return Compared(Table(" · ".join(sweeps), columns, rows, [*marks, *said]), parts, pd.concat(frames))


def _row(name: str, row: Row, columns: Mapping[str, str], named: bool) -> Row:
    """Return a row of a sweep's own table with the columns of this one; its block is `named` after the sweep."""
    cells = dict.fromkeys(columns, NOTHING) | dict(row.cells)
    holm = row.numbers.get("holm")
    if holm is not None:
        cells["difference"] = f"{cells['difference']} {'*' * sum(holm < level for level in LEVELS)}".strip()
    block = arm_words(f"{name} {row.numbers['facet']}") if named else row.block
    return Row(cells, block, numbers={"sweep": name} | dict(row.numbers))
