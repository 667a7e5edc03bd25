"""Comparison table of a sweep: every arm against the baseline, and the notes under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from study import metrics as table
from study.analysis import labels
from study.analysis.inference import FEW, FEWEST, Arm, Comparison, Facet, Test, compare, deviation
from study.analysis.runs import HOLES, SET_ASIDE, Runs, primary
from study.analysis.tables import Block, Column, Row, Table
from study.config.pruning import CUTTING
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

MARKS = {"welch": "", "resampled": " §", "within": " ¶", "few": ""}


DIFFERENCE = (Column("interval", "95% CI"), Column("holm", "Holm p"))
TRAINED = (Column("entropy", "entropy"), Column("speed", "tokens / s"))
PRUNED = {"curve": Column("freed", "number free"), "best_head": Column("with_one_head", "BLEU, one head a layer")}
"""Last columns of a table: of trained models, and of pruned models by their question."""
PRUNING_SCORES = {"curve": ("free", "area"), "each_head": ("needed", "harmful")}
"""Question ↦ the scores of its answer that a table shows."""
RULES = {
    "best_valid_bleu": "the step with the best BLEU on validation",
    "best_valid_loss": "the step with the lowest loss on validation",
    "last": "the last step",
}
"""The field training.select, in words."""

LISTED = 6
"""So many failures or inapplicable cells are listed by name, the rest counted."""


class Compared(NamedTuple):
    """The arms of a sweep, compared with its baseline."""

    table: Table
    facets: list[Facet]
    frame: pd.DataFrame
    """One row for each declared run."""


def compare_arms(spec: Spec, runs: Runs) -> Compared:
    """Compare the arms of every facet of a sweep in its primary metric.

    Raises:
        InputError: a record cannot be used.
    """
    frame, facets = runs.table(spec, shown_metrics(spec)), []
    for name in spec.arms:
        arms = runs.arms(spec, name, primary(spec))
        rows = frame[frame["facet"] == name]
        facets.append(Facet(name, primary(spec), rows, arms, compare(arms, spec.baseline(name))))
    return Compared(_table(spec, frame, facets), facets, frame)


def questions(spec: Spec) -> tuple[str, ...]:
    """Return the questions of a sweep's pruning runs; empty if it has none."""
    sections = [cell.experiment.pruning for cell in spec.cells if cell.experiment]
    return tuple(dict.fromkeys(section.question for section in sections if section))


def compares(spec: Spec) -> bool:
    """Return True if the arms of a sweep end in different models. Questions that only mask heads keep the model."""
    asked = questions(spec)
    return not asked or bool(set(CUTTING).intersection(asked))


def fractions(spec: Spec) -> list[float]:
    """Return the shares of heads that the pruned models of a sweep lack."""
    sections = [cell.experiment.pruning for cell in spec.cells if cell.experiment]
    return sorted({section.fraction for section in sections if section and section.fraction is not None})


def shown_metrics(spec: Spec) -> list[str]:
    """The scores with a column of their own: BLEU, exact match and what a pruning found, on the primary metric's split.

    And that metric. A sweep of probes alone has no BLEU.
    """
    found = [score for question in questions(spec) for score in PRUNING_SCORES.get(question, ())]
    names = [*(("bleu",) if any(has_bleu(spec, facet) for facet in spec.arms) else ()), "exact", *found]
    return list(dict.fromkeys([*(f"{spec.metric[0]}/{name}" for name in names), primary(spec)]))


def has_bleu(spec: Spec, facet: str) -> bool:
    """Return True if a facet's targets are sentences. BLEU needs four words; targets of probes are often shorter."""
    return any(c.experiment.data.sentences for c in spec.cells if c.experiment and spec.facet(c) == facet)


def _table(spec: Spec, frame: pd.DataFrame, facets: list[Facet]) -> Table:
    """Return the main table: every declared arm, what ran of it, its scores and its difference to the baseline."""
    metrics, asked = shown_metrics(spec), questions(spec)
    short = table.title(primary(spec), unit=False)
    columns = [
        Column("arm", "arm", "left"),
        Column("n", "runs", fold=", "),
        *(Column(name, table.title(name)) for name in metrics),
        *([Column("difference", f"Δ {short}"), *DIFFERENCE] if compares(spec) else ()),
        *([PRUNED[name] for name in asked if name in PRUNED] if asked else TRAINED),
    ]
    blocks = []
    for facet in facets:
        rows = [*_rows(facet, columns), *_inapplicable(facet, columns)]
        if not has_bleu(spec, facet.name):
            rows = [
                replace(row, cells={name: "" if name.endswith("/bleu") else text for name, text in row.cells.items()})
                for row in rows
            ]
        blocks.append(Block(labels.arm_words(facet.name), rows, facet.name))
    return Table(f"{spec.name}: {spec.description}".rstrip(": "), columns, blocks, _notes(spec, frame, facets))


def _rows(facet: Facet, columns: list[Column]) -> list[Row]:
    return [_row(facet, arm, facet.rows[facet.rows["arm"] == arm.label], columns) for arm in facet.arms]


def _row(facet: Facet, arm: Arm, rows: pd.DataFrame, columns: list[Column]) -> Row:
    comparison = facet.family.comparisons.get(arm.label)
    metrics = [column.key for column in columns if "/" in column.key]
    cells = {"arm": labels.arm_words(arm.label), "n": _count(rows)}
    cells |= {name: _score(rows, name) for name in metrics}
    others = _difference(comparison, table.decimals(facet.metric)) | _last(rows)
    cells |= {column.key: others[column.key] for column in columns if column.key in others}
    bold = frozenset({"difference", "interval", "holm"}) if comparison and comparison.significant else frozenset[str]()
    return Row(cells, bold, _numbers(facet, arm, rows, metrics) | _beside(rows, columns), arm.runs)


def _inapplicable(facet: Facet, columns: list[Column]) -> list[Row]:
    """Arms that the configuration rejects whole: a row that says so."""
    running = {arm.label for arm in facet.arms}
    names = dict.fromkeys(str(label) for label in facet.rows["arm"] if label not in running)
    empty = {column.key: labels.NOTHING for column in columns}
    return [
        Row(
            empty | {"arm": labels.arm_words(label), "n": "inapplicable"},
            numbers={"facet": facet.name, "arm": label, "n": 0, "declared": 0, "method": "inapplicable"},
        )
        for label in names
    ]


def _count(rows: pd.DataFrame) -> str:
    """Return `5`, or `3 of 5, 1 failed, 1 missing`: never a bare count where a run has no result.

    A note names the runs of seeds that do not count; see `_absent`.
    """
    finished = int((rows["state"] == "finished").sum())
    if finished == len(rows):
        return str(finished)
    states = rows["state"][rows["counts"]].value_counts()
    others = [f"{count} {state}" for state, count in states.items() if state != "finished"]
    return ", ".join([f"{finished} of {len(rows)}", *others])


def _score(rows: pd.DataFrame, name: str) -> str:
    """`83.4 ± 1.2`; over a part of the runs `83.4 ± 1.2 (n 3)`; without any the word for why."""
    known = rows[name].dropna()
    digits = table.decimals(name)
    if not len(known):
        states = set(rows["state"])
        return str(rows["state"].iloc[0]) if len(states) == 1 and states != {"finished"} else labels.NOTHING
    several = f" (n {len(known)})" if len(known) < len(rows) else ""
    return labels.mean_sd(float(known.mean()), deviation(known), digits) + several


def _last(rows: pd.DataFrame) -> dict[str, str]:
    """Return the cells of the last columns."""
    return {
        "entropy": labels.number(_mean(rows["entropy"]), 2),
        "speed": labels.number(_mean(rows["tokens_per_second"]), 0),
        "freed": _freed(rows),
        "with_one_head": labels.number(_mean(rows["with_one_head"]), 1),
    }


def _freed(rows: pd.DataFrame) -> str:
    """`7.2 of 24`: the mean number of heads that go for free, and how many there are."""
    known = rows["freed"].dropna()
    if not len(known):
        return labels.NOTHING
    several = f" (n {len(known)})" if len(known) < len(rows) else ""
    return f"{labels.number(float(known.mean()), 1)} of {labels.number(_mean(rows['heads']), 0)}{several}"


def _difference(comparison: Comparison | None, digits: int) -> dict[str, str]:
    """Difference, interval and p; without a test, why there is none."""
    if comparison is None or comparison.test is None:
        return {"difference": "", "interval": comparison.why if comparison else "baseline", "holm": ""}
    test = comparison.test
    return {
        "difference": labels.number(test.difference, digits, True) + MARKS[test.method],
        "interval": labels.interval(test.low, test.high, digits),
        "holm": labels.p_value(comparison.holm),
    }


def _mean(values: Any) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) else None


def _numbers(facet: Facet, arm: Arm, rows: pd.DataFrame, metrics: list[str]) -> dict[str, Any]:
    """One line of the CSV. Empty: not known."""
    states = rows["state"].value_counts()
    out: dict[str, Any] = {"facet": facet.name, "arm": arm.label}
    out |= {"n": len(arm.values), "declared": len(rows)}
    aside = [SET_ASIDE] if SET_ASIDE in set(facet.rows["state"]) else []
    out |= {state: int(states.get(state, 0)) for state in ("finished", "diverged", *HOLES, *aside)}
    for name in metrics:
        known = rows[name].dropna()
        out |= {f"{name} mean": _mean(known), f"{name} sd": deviation(known)}
    comparison = facet.family.comparisons.get(arm.label, Comparison())
    test = comparison.test
    out["method"] = "baseline" if arm is facet.base else test.method if test else comparison.why
    for name in ("difference", "low", "high", "se", "df", "p"):
        out[name] = getattr(test, name, None)
    out |= {"holm": comparison.holm, "detectable": comparison.detectable}
    return out


def _beside(rows: pd.DataFrame, columns: list[Column]) -> dict[str, Any]:
    trained = TRAINED[0] in columns
    names = ("entropy", "tokens_per_second") if trained else ("freed", "heads", "with_one_head")
    return {name: _mean(rows[name]) for name in names}


def _notes(spec: Spec, frame: pd.DataFrame, facets: list[Facet]) -> list[str]:
    """Return the notes of a table, in the order of reading."""
    compared = facets if compares(spec) else []
    tests = [c.test for facet in compared for c in facet.family.comparisons.values() if c.test]
    return [
        _score_rule(spec, frame),
        *([_difference_rule(spec, tests)] if compared else ()),
        _of_pruning(spec, frame) if questions(spec) else _trained_on(frame),
        *_power(compared),
        *_absent(frame),
    ]


def _score_rule(spec: Spec, frame: pd.DataFrame) -> str:
    rules = [RULES.get(rule, rule) for rule in sorted(set(frame["rule"]) - {""})]
    few = f" n < {FEW} is a quick look: expect wide intervals." if FEWEST <= len(spec.seeds) < FEW else ""
    return (
        f"Scores: split {spec.metric[0]}, mean ± sd over runs; n = {len(spec.seeds)} declared per arm (seeds "
        f"{', '.join(map(str, spec.seeds))}). Tested: {', '.join(rules) or 'nothing yet'}.{few}"
    )


def _difference_rule(spec: Spec, tests: Sequence[Test]) -> str:
    short = table.title("/".join(spec.metric), unit=False)
    said = [f"Δ: {short} minus the baseline's (first arm)"]
    if any(test.method == "few" for test in tests):
        said.append(f"Arms of fewer than {FEWEST} runs have no interval, p or bold, since so few show no spread")
    return f"{'. '.join(said)}."


def _trained_on(frame: pd.DataFrame) -> str:
    devices = sorted(set(frame["device"]) - {""})
    trained = f"Trained on {' and '.join(devices)}. " if devices else ""
    return f"{trained}docs/statistics.md#comparison-tables explains the columns."


def _of_pruning(spec: Spec, frame: pd.DataFrame) -> str:
    """Explain the columns of a pruned model."""
    asked, shares = questions(spec), ", ".join(f"{share:g}" for share in fractions(spec))
    parts = [f"BLEU and exact match are of the model without the first {shares} of the heads in the order."] * bool(
        shares
    )
    if "curve" in asked:
        parts.append(
            f"Of the curve in steps of a tenth: {table.METRICS['free'].title}, the largest share up to which no step "
            f"costs more than the margin (also as a number of heads); {table.METRICS['area'].title}, over all steps."
        )
    if set(asked) - set(CUTTING):
        parts.append("Where heads were masked alone, BLEU, exact match and NLL are the whole model's.")
    if "best_head" in asked:
        parts.append("One head a layer: the layer that suffers most when the best of its heads has to serve alone.")
    devices = sorted(set(frame["device"]) - {""})
    return " ".join([*parts, f"On {' and '.join(devices)}."] if devices else parts)


def _power(facets: list[Facet]) -> Iterator[str]:
    for facet in facets:
        known = [c.detectable for c in facet.family.comparisons.values() if c.detectable is not None]
        parts = []
        if facet.family.correlation is not None:
            parts.append(f"same-seed correlation {labels.number(facet.family.correlation, 2)}")
        if known:
            digits = table.decimals(facet.metric)
            ends = dict.fromkeys(labels.number(end, digits) for end in (min(known), max(known)))
            parts.append(f"smallest difference that these runs could show {' to '.join(ends)} (power .80)")
        if parts:
            text = "; ".join(parts)
            yield f"{labels.arm_words(facet.name)}: {text}." if facet.name else f"{text[0].upper()}{text[1:]}."


def _absent(frame: pd.DataFrame) -> Iterator[str]:
    """Yield a note on each: failures and divergences, cells that are no experiments, runs that do not count."""
    for state, head in (("failed", "Failed"), ("diverged", "Diverged"), ("inapplicable", "Inapplicable, not run")):
        rows = frame[frame["state"] == state]
        if not len(rows):
            continue
        if state == "inapplicable":
            said = [f"{arm} ({note})" for arm, note in zip(rows["arm"], rows["note"], strict=True)]
        else:
            said = [
                f"{name} ({note or 'no reason given'})" for name, note in zip(rows["id"], rows["note"], strict=True)
            ]
        listed = list(dict.fromkeys(said))
        more = f"; and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
        yield f"{head}: {'; '.join(listed[:LISTED])}{more}."
    if states := frame["state"][~frame["counts"]].value_counts().to_dict():
        runs = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        yield f"Not counted, because some arm of the corpus and family lacks their seed: {runs}."
