"""Comparison table of a sweep: every arm against the baseline, and the notes under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from study.analysis import labels
from study.analysis.inference import FEW, FEWEST, Arm, Test, adjusted, contrast
from study.analysis.measures import FACTS, Measure
from study.analysis.runs import HOLES, SCORED, Runs, primary
from study.analysis.tables import Row, Table
from study.config.pruning import CUTTING
from study.scores import metrics
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

MARKS = {"resampled": " §", "within": " ¶", "exact": " ‡"}
"""Test ↦ its mark behind an estimate, if it is not Welch's."""
PRUNED = {"curve": ("freed", "number free"), "best_head": ("with_one_head", "BLEU, one head a layer")}
"""Question of a pruning ↦ the last column of its table, and its heading."""
PRUNING_SCORES = {"curve": ("free", "area"), "each_head": ("needed", "harmful")}
"""Question ↦ the scores of its answer that a table shows."""
RULES = {
    "best_valid_bleu": "the step with the best BLEU on validation",
    "best_valid_loss": "the step with the lowest loss on validation",
    "last": "the last step",
}
"""The field training.select, in words."""
LISTED = 6
"""So many failures or inapplicable cells are listed by name."""


@dataclass(frozen=True)
class Facet:
    """One corpus and family: its cells, its arms in the order of the sweep, and the tests arm − baseline.

    Attributes:
        base: the arm that the others are compared with.
        tests: arm ↦ its test, adjusted over all arms but the baseline.
    """

    name: str
    metric: str
    rows: pd.DataFrame
    arms: tuple[Arm, ...]
    base: Arm
    tests: dict[str, Test]


class Compared(NamedTuple):
    """The arms of a sweep, compared with its baseline.

    Attributes:
        frame: one row for each declared run.
    """

    table: Table
    facets: list[Facet]
    frame: pd.DataFrame


def compare_arms(spec: Spec, runs: Runs) -> Compared:
    """Compare the arms of every facet of a sweep in its primary metric.

    Raises:
        InputError: a record cannot be used.
    """
    frame, metric, facets = runs.declared(spec, shown_metrics(spec)), primary(spec), []
    for name in spec.arms:
        arms = [arm for arm in runs.arms(spec) if arm.runs[0].facet == name]
        scored = tuple(replace(runs.values(arm, Measure(metric)), label=arm.label) for arm in arms)
        facets.append(facet_of(name, metric, frame[frame["facet"] == name], scored, spec.baseline(name)))
    return Compared(_table(spec, frame, facets), facets, frame)


def facet_of(name: str, metric: str, rows: pd.DataFrame, arms: tuple[Arm, ...], baseline: str) -> Facet:
    """Test every arm against the baseline, as one family."""
    base = next(arm for arm in arms if arm.label == baseline)
    compared = [arm for arm in arms if arm is not base]
    if base.holes or not base.values:
        tests = [Test("no baseline")] * len(compared)
    else:
        tests = adjusted([contrast([(1.0, arm), (-1.0, base)]) for arm in compared])
    return Facet(name, metric, rows, arms, base, dict(zip((arm.label for arm in compared), tests, strict=True)))


def questions(spec: Spec) -> tuple[str, ...]:
    """Return the questions of a sweep's pruning runs; empty if it has none."""
    sections = [cell.experiment.pruning for cell in spec.runnable]
    return tuple(dict.fromkeys(section.question for section in sections if section))


def compares(spec: Spec) -> bool:
    """Return True if the arms of a sweep end in different models. Questions that only mask heads keep the model."""
    pruned = questions(spec)
    return not pruned or not set(CUTTING).isdisjoint(pruned)


def shown_metrics(spec: Spec) -> list[str]:
    """The scores with a column of their own: BLEU, exact match and what a pruning found, on the primary metric's split.

    And that metric. A sweep of probes alone has no BLEU.
    """
    names = ["bleu"] if any(has_bleu(spec, facet) for facet in spec.arms) else []
    names.append("exact")
    for question in questions(spec):
        names += PRUNING_SCORES.get(question, ())
    return list(dict.fromkeys([*(f"{spec.metric[0]}/{name}" for name in names), primary(spec)]))


def has_bleu(spec: Spec, facet: str) -> bool:
    """Return True if a facet's targets are sentences. BLEU needs four words; targets of probes are often shorter."""
    return any(cell.experiment.data.sentences for cell in spec.runnable if cell.facet == facet)


def _table(spec: Spec, frame: pd.DataFrame, facets: list[Facet]) -> Table:
    """Return the main table: every declared arm, what ran of it, its scores and its difference to the baseline."""
    scores = shown_metrics(spec)
    pruned = questions(spec)
    columns = {"arm": "arm", "n": "runs"} | {name: metrics.title(name) for name in scores}
    if compares(spec):
        delta = metrics.title(primary(spec), unit=False)
        columns |= {"difference": f"Δ {delta}", "interval": "95% CI", "holm": "Holm p"}
    if pruned:
        columns |= dict(PRUNED[question] for question in pruned if question in PRUNED)
    else:
        columns |= {"entropy": "entropy", "tokens_per_second": "tokens / s"}
    rows: list[Row] = []
    for facet in facets:
        blank = {name: "" for name in scores if name.endswith("/bleu") and not has_bleu(spec, facet.name)}
        for arm in facet.arms:
            rows.append(_row(facet, arm, scores, bool(pruned), blank))
    return Table(f"{spec.name}: {spec.description}".rstrip(": "), columns, rows, list(_notes(spec, frame, facets)))


def _row(facet: Facet, arm: Arm, scores: Sequence[str], pruned: bool, blank: dict[str, str]) -> Row:
    """Return one arm: its texts, and its numbers as the CSV has them. NaN: not known."""
    rows = facet.rows[facet.rows["arm"] == arm.label]
    test = facet.tests.get(arm.label, Test("baseline"))
    states = rows["state"].value_counts()
    finished = int(states.get("finished", 0))
    means = {name: rows[name].mean() for name in FACTS}
    beside = ("freed", "heads", "with_one_head") if pruned else ("entropy", "tokens_per_second")
    tested = ("method", "difference", "low", "high", "se", "df", "p", "holm", "detectable")

    numbers: dict[str, Any] = {"facet": facet.name, "arm": arm.label, "n": len(arm.values), "declared": len(rows)}
    numbers |= {state: int(states.get(state, 0)) for state in (*SCORED, *HOLES)}
    for name in scores:
        numbers |= {f"{name} mean": rows[name].mean(), f"{name} sd": rows[name].std()}
    numbers |= {name: getattr(test, name) for name in tested} | {name: means[name] for name in beside}
    numbers |= {"runs": " ".join(dict.fromkeys(arm.runs))}

    lacking = (f"{count} {state}" for state, count in states.items() if state != "finished")
    runs = str(finished) if finished == len(rows) else ", ".join([f"{finished} of {len(rows)}", *lacking])
    cells = {"arm": labels.arm_words(arm.label), "n": runs}
    cells |= {name: _score(rows, name) for name in scores} | blank
    cells |= {"difference": "", "interval": test.method, "holm": ""}
    if test.difference is not None:
        digits = metrics.decimals(facet.metric)
        cells["difference"] = labels.number(test.difference, digits, True) + MARKS.get(test.method, "")
        cells |= {"interval": labels.interval(test.low, test.high, digits), "holm": labels.p_value(test.holm)}
    freed = f"{labels.number(means['freed'], 1)} of {labels.number(means['heads'], 0)}{_part(rows['freed'])}"
    cells["freed"] = freed if rows["freed"].notna().any() else labels.NOTHING
    for name, decimals in {"with_one_head": 1, "entropy": 2, "tokens_per_second": 0}.items():
        cells[name] = labels.number(means[name], decimals)
    bold: frozenset[str] = frozenset({"difference", "interval", "holm"} if test.significant else ())
    return Row(cells, labels.arm_words(facet.name), bold, numbers)


def _score(rows: pd.DataFrame, name: str) -> str:
    """`83.4 ± 1.2`; over a part of the runs `83.4 ± 1.2 (n 3)`; without any the word for why."""
    values, states = rows[name], set(rows["state"])
    if values.notna().any():
        return labels.mean_sd(values.mean(), values.std(), metrics.decimals(name)) + _part(values)
    return str(rows["state"].iloc[0]) if len(states) == 1 and states != {"finished"} else labels.NOTHING


def _part(values: pd.Series) -> str:
    """Return how many runs a mean is of, where it is not all."""
    count = int(values.notna().sum())
    return f" (n {count})" if count < len(values) else ""


def _notes(spec: Spec, frame: pd.DataFrame, facets: list[Facet]) -> Iterator[str]:
    """Yield the notes of a table: the tested step, the baseline, the devices, and every run without a score."""
    seeds = spec.seeds
    rules = [RULES.get(rule, rule) for rule in sorted(set(frame["rule"]) - {""})]
    few = f" n < {FEW} is a quick look: expect wide intervals." if FEWEST <= len(seeds) < FEW else ""
    yield (
        f"Scores: split {spec.metric[0]}, mean ± sd over runs; n = {len(seeds)} declared per arm (seeds "
        f"{', '.join(map(str, seeds))}). Tested: {', '.join(rules) or 'nothing yet'}.{few}"
    )
    if compares(spec):
        note = f"Δ: {metrics.title(primary(spec), unit=False)} minus the baseline's (first arm)."
        if any(test.method == "few" for facet in facets for test in facet.tests.values()):
            note += f" Arms of fewer than {FEWEST} runs have no interval, p or bold, since so few show no spread."
        yield note
    devices = " and ".join(sorted(set(frame["device"]) - {""}))
    page = "pruning.md#tables" if questions(spec) else "statistics.md#comparison-tables"
    trained = f"Trained on {devices}. " if devices else ""
    yield f"{trained}docs/{page} explains the columns."
    for state, head in {"failed": "Failed", "diverged": "Diverged", "inapplicable": "Inapplicable, not run"}.items():
        rows = frame[frame["state"] == state]
        names = zip(rows["arm" if state == "inapplicable" else "id"], rows["note"], strict=True)
        listed = list(dict.fromkeys(f"{name} ({note or 'no reason given'})" for name, note in names))
        if listed:
            rest = ["…"] if len(listed) > LISTED else []
            yield f"{head}: {'; '.join(listed[:LISTED] + rest)}."
