"""Numbers that the paper reads, and its PDF.

The paper's sentences stand in `paper/*.typ`. Typst gets one JSON text, made in memory from `results/tables/*.csv` and
the runs: the rows of the tables with their numbers as they are printed, and counts over all runs.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.analysis import agreement
from study.analysis.labels import interval, mean_sd, number
from study.claims.table import printed
from study.config.pruning import TRAINING
from study.config.words import arm_words
from study.errors import InputError
from study.files import write
from study.folders import CHECKOUT
from study.scores.metrics import decimals
from study.store.manifest import Results

if TYPE_CHECKING:
    import pandas as pd

    from study.analysis.runs import Runs

SOURCE = CHECKOUT / "paper" / "main.typ"
FURTHER = dict.fromkeys(("bottleneck", "longer"), "pronoun/contrast")
"""Sweep ↦ a score that the text names and the table of the sweep does not have."""
DRAWN = (
    "grammar-recurrent-dot-10a1cf6c-s1",
    "grammar-recurrent-dot-6b079020-s1",
    "grammar-transformer-dot-dc42eab8-s1",
)
"""Runs whose attention maps the paper draws."""


def table(results: Results, stem: str) -> list[dict[str, str]]:
    """Read the rows of a published table; every cell is text, empty where there is no number.

    Raises:
        InputError: the table is not there.
    """
    path = results.root / "tables" / f"{stem}.csv"
    if not path.is_file():
        raise InputError(f"{path}: expected a table, got no file. Make it with `study reproduce tables`.")
    with path.open(encoding="utf-8", newline="") as file:
        return [row | {"runs": ""} for row in csv.DictReader(file)]


def numbers(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the cells of a row, numbers as numbers; None where a cell is empty."""
    cells: dict[str, Any] = dict(row)
    for name, text in row.items():
        with suppress(ValueError):
            cells[name] = float(text) if text else None
    return cells


def evidence(row: Mapping[str, str]) -> dict[str, str]:
    """Return the printed cells of a row of `contrasts` or `summary`."""
    return printed(numbers(row))


def sweep_cells(row: Mapping[str, str], metric: str) -> dict[str, str]:
    """Return the printed cells of a row of a sweep's table."""
    values, digits = numbers(row), decimals(metric)
    cells = {
        "arm": arm_words(row["arm"]),
        "interval": interval(values.get("low"), values.get("high"), digits),
        "entropy": number(values.get("entropy"), 2),
        "difference": number(values.get("difference"), digits, True),
    }
    for column in row:
        score = column.removesuffix(" mean")
        if score != column:
            cells[score] = mean_sd(values[column], values.get(f"{score} sd"), decimals(score))
    return cells


def _tables(results: Results, runs: Runs) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield every table that the text reads: its name, and its rows with values and printed cells."""

    def printed_rows(stem: str, cells: Callable[[dict[str, str]], dict[str, str]]) -> list[dict[str, Any]]:
        return [{"values": row, "cells": cells(row)} for row in table(results, stem)]

    contrasts = printed_rows("contrasts", evidence)
    yield "contrasts", contrasts
    yield "claims", [row for row in contrasts if row["values"]["decides"] == "True"]
    yield "summary", printed_rows("summary", evidence)
    for stem, sweep in results.manifests.items():
        yield stem, printed_rows(stem, partial(sweep_cells, metric=sweep.metric))
    for kind in ("agreement-*", "correlation-*", "predictions*", "hits*"):  # effects of the same arms in two sweeps
        for path in sorted((results.root / "tables").glob(f"{kind}.csv")):
            yield path.stem, printed_rows(path.stem, lambda row: agreement.cells(numbers(row)))
    for stem in ("gains", "scales", "shares"):  # counts, and scores by learning rate
        if (results.root / "tables" / f"{stem}.csv").is_file():
            yield stem, printed_rows(stem, dict)
    further: list[dict[str, Any]] = []
    for name, score in FURTHER.items():
        frame = runs.declared(runs.spec(str(results.file(name))), [score])
        for (facet, arm), scores in frame.groupby(["facet", "arm"], sort=False)[score]:
            cells = {score: mean_sd(scores.mean(), scores.std(), decimals(score))} if scores.notna().any() else {}
            further.append({"values": {"sweep": name, "facet": facet, "arm": arm}, "cells": cells})
    yield "further", further


def facts(runs: pd.DataFrame) -> dict[str, Any]:
    """Return counts over all runs; median time and most frequent sizes of the trainings on the grammar."""
    question = runs["pruning.question"]
    pruned = question.notna() & ~question.isin(TRAINING)
    grammar = runs[~pruned & (runs["data.name"] == "grammar")]
    usual = grammar.groupby("model.family")["parameters"].agg(lambda sizes: sizes.mode()[0])
    return {
        "runs_counted": len(runs),
        "prunings": int(pruned.sum()),
        "trainings": int((~pruned).sum()),
        "runs_diverged": int((runs["status"] == "diverged").sum()),
        "runs_failed": int((runs["status"] == "failed").sum()),
        "hours": number(runs["wall_seconds"].sum() / 3600),
        "seconds": number(grammar["wall_seconds"].median(), 0),
        "parameters": {family: number(count, 0) for family, count in usual.items()},
    }


def build(results: Results, runs: Runs, target: Path | None = None) -> list[Path]:
    """Compile the paper from a results folder that lies in the repository; return the path of the PDF.

    Equal inputs give equal bytes: typst gets no time, no fonts of the system and no files but those of the repository.

    Args:
        results: the published results, with the tables of all steps before this one.
        runs: the published runs.
        target: the PDF to write; `paper/main.pdf` by default.

    Raises:
        InputError: typst stops: a file, a table, a row or a reference that the text names is not there, or a word of
            the text contradicts a number.
        ModuleNotFoundError: typst is not installed.
    """
    if results.root.resolve().parent != CHECKOUT:
        return []
    import matplotlib
    import typst

    study = facts(results.store.runs)
    study["root_hash"] = results.root_hash
    study["maps"] = {run: json.loads(results.store.content(run, "maps.json") or b"null") for run in DRAWN}
    study["tables"] = dict(_tables(results, runs))
    try:
        # Without tags, which double the size: every cell of every table would be an object.
        pdf = typst.compile(
            str(SOURCE),
            root=str(CHECKOUT),
            font_paths=[str(Path(matplotlib.get_data_path(), "fonts", "ttf"))],  # the letters of figures
            ignore_system_fonts=True,
            sys_inputs={"study": json.dumps(study, ensure_ascii=False)},
            timestamp=0,
            pdf_tags=False,
        )
    except typst.TypstError as problem:
        place = SOURCE.relative_to(CHECKOUT)
        raise InputError(f"{place}: {problem.message}. {'; '.join(problem.hints) or 'Correct the text.'}") from None
    target = target or SOURCE.with_suffix(".pdf")
    write(target, pdf)
    return [target]
