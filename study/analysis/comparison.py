"""The arms of a sweep against its baseline: analysed once, then a table here and a figure elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from study import metrics as table
from study.analysis import prunings, wording
from study.analysis.inference import Arm, Comparison, Facet, compare, deviation
from study.analysis.notes import notes
from study.analysis.runs import HOLES, arms_of_rows, primary
from study.analysis.tables import Block, Column, Row, Table
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

MARKS = {"model": "", "paired": " †", "welch": " ‡", "resampled": " §", "within": " ¶", "few": ""}


DIFFERENCE = (Column("interval", "95% CI"), Column("holm", "Holm p"))
TRAINED = (Column("entropy", "entropy"), Column("speed", "tokens / s"))
PRUNED = {"curve": Column("freed", "number free"), "best_head": Column("with_one_head", "BLEU, one head a layer")}
"""Last columns of a table: of trained models, and of pruned models by their question."""


def analyse(spec: Spec, frame: pd.DataFrame) -> list[Facet]:
    """Every facet of a sweep, compared in its primary metric."""
    metric, facets = primary(spec), []
    for name in spec.arms:
        rows = frame[frame["facet"] == name]
        arms = tuple(arms_of_rows(rows, metric))
        facets.append(Facet(name, metric, rows, arms, compare(arms, spec.baseline(name))))
    return facets


def shown_metrics(spec: Spec) -> list[str]:
    """The scores with a column of their own: BLEU, exact match and what a pruning found, on the primary metric's split.

    And that metric. A sweep of probes alone has no BLEU.
    """
    found = [score for question in prunings.questions(spec) for score in prunings.SCORES.get(question, ())]
    names = [*(("bleu",) if any(has_bleu(spec, facet) for facet in spec.arms) else ()), "exact", *found]
    return list(dict.fromkeys([*(f"{spec.metric[0]}/{name}" for name in names), primary(spec)]))


def has_bleu(spec: Spec, facet: str) -> bool:
    """Return True if a facet's targets are sentences. BLEU needs four words; targets of probes are often shorter."""
    return any(c.experiment.data.sentences for c in spec.cells if c.experiment and spec.facet(c) == facet)


def comparison_table(spec: Spec, frame: pd.DataFrame, facets: list[Facet]) -> Table:
    """The main table: every declared arm, what ran of it, its scores and its difference to the baseline."""
    metrics, asked = shown_metrics(spec), prunings.questions(spec)
    short = table.title(primary(spec), unit=False)
    columns = [
        Column("arm", "arm", "left"),
        Column("n", "runs", fold=", "),
        *(Column(name, table.title(name)) for name in metrics),
        *([Column("difference", f"Δ {short}"), *DIFFERENCE] if prunings.compares(spec) else ()),
        *([PRUNED[name] for name in asked if name in PRUNED] if asked else TRAINED),
    ]
    blocks = []
    for facet in facets:
        rows = [*_rows(facet, columns), *_inapplicable(facet, columns)]
        blocks.append(
            Block(
                wording.arm_words(facet.name),
                rows if has_bleu(spec, facet.name) else [_without_bleu(row) for row in rows],
                facet.name,
            )
        )
    return Table(f"{spec.name}: {spec.description}".rstrip(": "), columns, blocks, notes(spec, frame, facets))


def _without_bleu(row: Row) -> Row:
    return replace(row, cells={name: "" if name.endswith("/bleu") else text for name, text in row.cells.items()})


def _rows(facet: Facet, columns: list[Column]) -> list[Row]:
    return [_row(facet, arm, facet.rows[facet.rows["arm"] == arm.label], columns) for arm in facet.arms]


def _row(facet: Facet, arm: Arm, rows: pd.DataFrame, columns: list[Column]) -> Row:
    comparison = facet.family.comparisons.get(arm.label)
    metrics = [column.key for column in columns if "/" in column.key]
    cells = {"arm": wording.arm_words(arm.label), "n": _count(rows)}
    cells |= {name: _score(rows, name) for name in metrics}
    others = _difference(comparison, table.decimals(facet.metric)) | _last(rows)
    cells |= {column.key: others[column.key] for column in columns if column.key in others}
    bold = frozenset({"difference", "interval", "holm"}) if comparison and comparison.significant else frozenset[str]()
    return Row(cells, bold, _numbers(facet, arm, rows, metrics) | _beside(rows, columns))


def _inapplicable(facet: Facet, columns: list[Column]) -> list[Row]:
    """Arms that the configuration rejects whole: a row that says so."""
    running = {arm.label for arm in facet.arms}
    labels = dict.fromkeys(str(label) for label in facet.rows["arm"] if label not in running)
    empty = {column.key: wording.NOTHING for column in columns}
    return [
        Row(
            empty | {"arm": wording.arm_words(label), "n": "inapplicable"},
            numbers={"facet": facet.name, "arm": label, "n": 0, "declared": 0, "method": "inapplicable"},
        )
        for label in labels
    ]


def _count(rows: pd.DataFrame) -> str:
    """`5`, or `3 of 5, 1 failed, 1 missing`: never a bare count where a run has no result."""
    states = rows["state"].value_counts()
    finished = int(states.get("finished", 0))
    if finished == len(rows):
        return str(finished)
    others = [f"{count} {state}" for state, count in states.items() if state != "finished"]
    return ", ".join([f"{finished} of {len(rows)}", *others])


def _score(rows: pd.DataFrame, name: str) -> str:
    """`83.4 ± 1.2`; over a part of the runs `83.4 (n 1)`; without any the word for why."""
    known = rows[name].dropna()
    digits = table.decimals(name)
    if not len(known):
        states = set(rows["state"])
        return str(rows["state"].iloc[0]) if len(states) == 1 and states != {"finished"} else wording.NOTHING
    if len(known) < len(rows):
        return f"{wording.number(float(known.mean()), digits)} (n {len(known)})"
    return wording.mean_sd(float(known.mean()), deviation(known), digits)


def _last(rows: pd.DataFrame) -> dict[str, str]:
    """The cells of the last columns, whichever they are."""
    return {
        "entropy": wording.number(_mean(rows["entropy"]), 2),
        "speed": wording.number(_mean(rows["tokens_per_second"]), 0),
        "freed": _freed(rows),
        "with_one_head": wording.number(_mean(rows["with_one_head"]), 1),
    }


def _freed(rows: pd.DataFrame) -> str:
    """`7.2 of 24`: the mean number of heads that go for free, and how many there are."""
    known = rows["freed"].dropna()
    if not len(known):
        return wording.NOTHING
    several = f" (n {len(known)})" if len(known) < len(rows) else ""
    return f"{wording.number(float(known.mean()), 1)} of {wording.number(_mean(rows['heads']), 0)}{several}"


def _difference(comparison: Comparison | None, digits: int) -> dict[str, str]:
    """Difference, interval and p; without a test, why there is none."""
    if comparison is None or comparison.test is None:
        return {"difference": "", "interval": comparison.why if comparison else "baseline", "holm": ""}
    test = comparison.test
    return {
        "difference": wording.number(test.difference, digits, True) + MARKS[test.method],
        "interval": wording.interval(test.low, test.high, digits),
        "holm": wording.p_value(comparison.holm),
    }


def _mean(values: Any) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) else None


def _numbers(facet: Facet, arm: Arm, rows: pd.DataFrame, metrics: list[str]) -> dict[str, Any]:
    """One line of the CSV. Empty: not known."""
    states = rows["state"].value_counts()
    out: dict[str, Any] = {"facet": facet.name, "arm": arm.label}
    out |= {"n": len(arm.values), "declared": len(rows)}
    out |= {state: int(states.get(state, 0)) for state in ("finished", "diverged", *HOLES)}
    for name in metrics:
        known = rows[name].dropna()
        out |= {f"{name} mean": _mean(known), f"{name} sd": deviation(known)}
    comparison = facet.family.comparisons.get(arm.label, Comparison())
    test, model = comparison.test, comparison.model
    out["method"] = "baseline" if arm is facet.base else test.method if test else comparison.why
    for name in ("difference", "low", "high", "se", "df", "p"):
        out[name] = getattr(test, name, None)
    out |= {"holm": comparison.holm, "detectable": comparison.detectable}
    for name in ("difference", "low", "high", "p"):
        out[f"model {name}"] = getattr(model, name, None)
    return out


def _beside(rows: pd.DataFrame, columns: list[Column]) -> dict[str, Any]:
    trained = TRAINED[0] in columns
    names = ("entropy", "tokens_per_second") if trained else ("freed", "heads", "with_one_head")
    return {name: _mean(rows[name]) for name in names}
