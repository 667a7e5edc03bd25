"""Comparison table of a sweep: every arm against the baseline, and the notes under it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from study.analysis import labels
from study.analysis.inference import FEW, FEWEST, Arm, Test, adjusted, contrast
from study.analysis.measures import FACTS, Measure
from study.analysis.runs import HOLES, SCORED, Runs
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
    """Compare the arms of every facet of a sweep in the metric that decides there.

    Raises:
        InputError: a record cannot be used.
    """
    shown = shown_scores(spec)
    calibrated = [name.replace("nll", "nll_calibrated") for name in shown if name.startswith("nll")]
    splits = dict.fromkeys(map(_split, spec.metrics.values()))
    scores: dict[str, list[str]] = {}
    for name in (*shown, *calibrated):
        scores[name] = [f"{split}/{name}" for split in splits]
    frame = runs.declared(spec, list(chain(*scores.values())))
    for name in calibrated:
        if frame[scores[name]].isna().all(axis=None):  # runs of older versions have none
            del scores[name]
    arms: dict[str, list[Arm]] = {name: [] for name in spec.arms}
    for arm in runs.arms(spec):
        facet = arm.runs[0].facet
        arms[facet].append(replace(runs.values(arm, Measure(spec.metrics[facet])), label=arm.label))
    facets = []
    for name in spec.arms:
        rows = frame[frame["facet"] == name]
        facets.append(facet_of(name, spec.metrics[name], rows, tuple(arms[name]), spec.baseline(name)))
    return Compared(_table(spec, scores, frame, facets), facets, frame)


def facet_of(name: str, metric: str, rows: pd.DataFrame, arms: tuple[Arm, ...], baseline: str) -> Facet:
    """Test every arm against the baseline, as one family."""
    base = next(arm for arm in arms if arm.label == baseline)
    tests: dict[str, Test] = {}
    for arm in arms:
        if arm is not base:
            tests[arm.label] = contrast([(1.0, arm), (-1.0, base)])
    if base.holes or not base.values:
        tests = dict.fromkeys(tests, Test("no baseline"))
    else:
        tests = dict(zip(tests, adjusted(list(tests.values())), strict=True))
    return Facet(name, metric, rows, arms, base, tests)


def questions(spec: Spec) -> tuple[str, ...]:
    """Return the questions of a sweep's pruning runs; empty if it has none."""
    names: dict[str, None] = {}
    for run in spec.runnable:
        if run.experiment.pruning:
            names[run.experiment.pruning.question] = None
    return tuple(names)


def compares(spec: Spec) -> bool:
    """Return True if the arms of a sweep end in different models. Questions that only mask heads keep the model."""
    pruned = questions(spec)
    return not pruned or not set(CUTTING).isdisjoint(pruned)


def shown_scores(spec: Spec) -> list[str]:
    """The scores with a column of their own: BLEU, exact match, what a pruning found, and those that decide.

    They are of the split that decides in a facet. A sweep of probes alone has no BLEU. NLL has the calibrated one
    beside it where runs have it.
    """
    names = ["exact"]
    if any(run.experiment.data.sentences for run in spec.runnable):
        names.insert(0, "bleu")
    for question in questions(spec):
        names += PRUNING_SCORES.get(question, ())
    for metric in spec.metrics.values():
        names.append(metric.partition("/")[2])
    return list(dict.fromkeys(names))


def has_bleu(spec: Spec, facet: str) -> bool:
    """Return True if a facet's targets are sentences. BLEU needs four words; targets of probes are often shorter."""
    return any(cell.experiment.data.sentences for cell in spec.runnable if cell.facet == facet)


def _table(spec: Spec, scores: Mapping[str, Sequence[str]], frame: pd.DataFrame, facets: list[Facet]) -> Table:
    """Return the main table: every declared arm, what ran of it, its scores and its difference to the baseline.

    `scores` has the metrics of each score that is shown, one for each split that decides.
    """
    pruned = questions(spec)
    columns = {"arm": "arm", "n": "runs"}
    for name in scores:
        columns[name] = metrics.title(f"/{name}")
    if compares(spec):
        deltas = {metrics.title(facet.metric, unit=False) for facet in facets}
        delta = f"Δ {deltas.pop()}" if len(deltas) == 1 else "Δ"
        columns |= {"difference": delta, "interval": "95% CI", "holm": "Holm p"}
    for question in pruned:
        if question in PRUNED:
            key, head = PRUNED[question]
            columns[key] = head
    if not pruned:
        columns |= {"entropy": "entropy", "tokens_per_second": "tokens / s"}
    rows: list[Row] = []
    for facet in facets:
        bleu = has_bleu(spec, facet.name)
        for arm in facet.arms:
            rows.append(_row(facet, arm, scores, bool(pruned), bleu))
    return Table(f"{spec.name}: {spec.description}".rstrip(": "), columns, rows, list(_notes(spec, frame, facets)))


def _row(facet: Facet, arm: Arm, scores: Mapping[str, Sequence[str]], pruned: bool, bleu: bool) -> Row:
    """Return one arm: its texts, and its numbers as the CSV has them. NaN: not known."""
    rows = facet.rows[facet.rows["arm"] == arm.label]
    test = facet.tests.get(arm.label, Test("baseline"))
    states = rows["state"].value_counts()
    finished = int(states.get("finished", 0))
    means = rows[list(FACTS)].mean()
    beside = ["freed", "heads", "with_one_head"] if pruned else ["entropy", "tokens_per_second"]

    numbers: dict[str, Any] = {"facet": facet.name, "arm": arm.label, "n": len(arm.values), "declared": len(rows)}
    for state in (*SCORED, *HOLES):
        numbers[state] = int(states.get(state, 0))
    for metric in chain(*scores.values()):
        numbers[f"{metric} mean"] = rows[metric].mean()
        numbers[f"{metric} sd"] = rows[metric].std()
    for name in ("method", "difference", "low", "high", "se", "df", "p", "holm", "detectable"):
        numbers[name] = getattr(test, name)
    for name in beside:
        numbers[name] = means[name]
    numbers["runs"] = " ".join(dict.fromkeys(arm.runs))

    cells = {"arm": labels.arm_words(arm.label), "n": str(finished)}
    if finished < len(rows):
        cells["n"] += f" of {len(rows)}"
        for word, count in states.items():
            if word != "finished":
                cells["n"] += f", {count} {word}"
    for name in scores:
        cells[name] = _score(rows, f"{_split(facet.metric)}/{name}") if bleu or name != "bleu" else ""
    cells |= {"difference": "", "interval": test.method, "holm": ""}
    if test.difference is not None:
        digits = metrics.decimals(facet.metric)
        cells["difference"] = labels.number(test.difference, digits, True) + MARKS.get(test.method, "")
        cells["interval"] = labels.interval(test.low, test.high, digits)
        cells["holm"] = labels.p_value(test.holm)
    for name, decimals in {"freed": 1, "with_one_head": 1, "entropy": 2, "tokens_per_second": 0}.items():
        cells[name] = labels.number(means[name], decimals)
    if rows["freed"].notna().any():
        cells["freed"] += f" of {labels.number(means['heads'], 0)}{_part(rows['freed'])}"
    bold = {"difference", "holm"} if test.significant else set()
    if (test.low or 0) > 0 or (test.high or 0) < 0:
        bold.add("interval")  # its adjustment, Bonferroni's, is stricter than Holm's
    return Row(cells, labels.arm_words(facet.name), frozenset(bold), numbers)


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


def _split(metric: str) -> str:
    return metric.partition("/")[0]


def _deciding(spec: Spec, part: Callable[[str], str]) -> str:
    """Return a part of the metric that decides: `test`, or with several `test (grammar), admin (files)`."""
    corpora: dict[str, dict[str, None]] = {}
    for run in spec.runnable:
        corpora.setdefault(part(spec.metrics[run.facet]), {})[run.experiment.data.name] = None
    if len(corpora) == 1:
        return next(iter(corpora))
    return ", ".join(f"{text} ({', '.join(names)})" for text, names in corpora.items())


def _notes(spec: Spec, frame: pd.DataFrame, facets: list[Facet]) -> Iterator[str]:
    """Yield the notes of a table: the tested step, the baseline, the devices, and every run without a score."""
    seeds = spec.seeds
    rules = [labels.RULES.get(rule, rule) for rule in sorted(set(frame["rule"]) - {""})]
    note = (
        f"Scores: split {_deciding(spec, _split)}, mean ± sd over runs; n = {len(seeds)} declared per arm (seeds "
        f"{', '.join(map(str, seeds))}). Tested: {', '.join(rules) or 'nothing yet'}."
    )
    if FEWEST <= len(seeds) < FEW:
        note += f" n < {FEW} is a quick look: expect wide intervals."
    yield note
    if compares(spec):
        note = f"Δ: {_deciding(spec, partial(metrics.title, unit=False))} minus the baseline's (first arm)."
        if any(test.method == "few" for facet in facets for test in facet.tests.values()):
            note += f" Arms of fewer than {FEWEST} runs have no interval, p or bold, since so few show no spread."
        yield note
    devices = " and ".join(sorted(set(frame["device"]) - {""}))
    page = "pruning.md#tables" if questions(spec) else "statistics.md#comparison-tables"
    trained = f"Trained on {devices}. " if devices else ""
    yield f"{trained}docs/{page} explains the columns."
    for state, head in {"failed": "Failed", "diverged": "Diverged", "inapplicable": "Inapplicable, not run"}.items():
        rows = frame[frame["state"] == state]
        names = rows["arm" if state == "inapplicable" else "id"]
        listed = (names + " (" + rows["note"].replace("", "no reason given") + ")").unique().tolist()
        if len(listed) > LISTED:
            listed[LISTED:] = ["…"]
        if listed:
            yield f"{head}: {'; '.join(listed)}."
