"""Comparison table of a sweep: every arm against the baseline, and the notes under it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from study import metrics
from study.analysis import labels
from study.analysis.inference import FEW, FEWEST, Arm, Comparison, Facet, compare, deviation
from study.analysis.runs import HOLES, SET_ASIDE, Runs, primary
from study.analysis.tables import Block, Column, Row, Table
from study.config.pruning import CUTTING
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

MARKS = {"welch": "", "resampled": " §", "within": " ¶", "few": "", "exact": " ‡"}

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
    frame, facets = runs.declared(spec, shown_metrics(spec)), []
    for name in spec.arms:
        arms = runs.arms(spec, name, primary(spec))
        facets.append(
            Facet(name, primary(spec), frame[frame["facet"] == name], arms, compare(arms, spec.baseline(name)))
        )
    return Compared(_table(spec, frame, facets), facets, frame)


def questions(spec: Spec) -> tuple[str, ...]:
    """Return the questions of a sweep's pruning runs; empty if it has none."""
    sections = [cell.experiment.pruning for cell in spec.cells if cell.experiment]
    return tuple(dict.fromkeys(section.question for section in sections if section))


def compares(spec: Spec) -> bool:
    """Return True if the arms of a sweep end in different models. Questions that only mask heads keep the model."""
    asked = questions(spec)
    return not asked or bool(set(CUTTING).intersection(asked))


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
    scores, asked = shown_metrics(spec), questions(spec)
    columns = [
        Column("arm", "arm", "left"),
        Column("n", "runs"),
        *(Column(name, metrics.title(name)) for name in scores),
        *([Column("difference", f"Δ {metrics.title(primary(spec), unit=False)}"), *DIFFERENCE] * compares(spec)),
        *([PRUNED[name] for name in asked if name in PRUNED] if asked else TRAINED),
    ]
    blocks = []
    for facet in facets:
        bleu = has_bleu(spec, facet.name)
        rows = [_row(facet, arm, columns, bleu) for arm in facet.arms]
        absent = dict.fromkeys(label for label in facet.rows["arm"] if label not in {arm.label for arm in facet.arms})
        for label in absent:  # the configuration rejects the whole arm
            cells = {c.key: "" if c.key.endswith("/bleu") and not bleu else labels.NOTHING for c in columns}
            cells |= {"arm": labels.arm_words(label), "n": "inapplicable"}
            facts = {"facet": facet.name, "arm": label, "n": 0, "declared": 0, "method": "inapplicable"}
            rows.append(Row(cells, numbers=facts))
        blocks.append(Block(labels.arm_words(facet.name), rows, facet.name))
    return Table(f"{spec.name}: {spec.description}".rstrip(": "), columns, blocks, list(_notes(spec, frame, facets)))


def _row(facet: Facet, arm: Arm, columns: Sequence[Column], bleu: bool) -> Row:
    """Return one arm: its texts, and its numbers as the CSV has them. None: not known."""
    rows, comparison = facet.rows[facet.rows["arm"] == arm.label], facet.family.comparisons.get(arm.label)
    test = comparison.test if comparison else None
    digits, states = metrics.decimals(facet.metric), rows["state"].value_counts()
    scores = [column.key for column in columns if "/" in column.key]
    beside = ("entropy", "tokens_per_second") if TRAINED[0] in columns else ("freed", "heads", "with_one_head")
    means = {name: _mean(rows[name]) for name in beside}

    numbers: dict[str, Any] = {"facet": facet.name, "arm": arm.label, "n": len(arm.values), "declared": len(rows)}
    aside = [SET_ASIDE] if SET_ASIDE in set(facet.rows["state"]) else []
    numbers |= {state: int(states.get(state, 0)) for state in ("finished", "diverged", *HOLES, *aside)}
    for name in scores:
        numbers |= {f"{name} mean": _mean(rows[name]), f"{name} sd": deviation(rows[name].dropna())}
    numbers["method"] = "baseline" if arm is facet.base else test.method if test else (comparison or Comparison()).why
    numbers |= {name: getattr(test, name, None) for name in ("difference", "low", "high", "se", "df", "p")}
    numbers |= {name: getattr(comparison, name, None) for name in ("holm", "detectable")} | means

    cells = {"arm": labels.arm_words(arm.label), "n": _count(rows)}
    cells |= {name: _score(rows, name) if bleu or not name.endswith("/bleu") else "" for name in scores}
    cells |= {"difference": "", "interval": comparison.why if comparison else "baseline", "holm": ""}
    if comparison and test:
        cells["difference"] = labels.number(test.difference, digits, True) + MARKS[test.method]
        cells |= {"interval": labels.interval(test.low, test.high, digits), "holm": labels.p_value(comparison.holm)}
    if "entropy" in means:
        cells |= {"entropy": labels.number(means["entropy"], 2), "speed": labels.number(means["tokens_per_second"], 0)}
    else:
        free = f"{labels.number(means['freed'], 1)} of {labels.number(means['heads'], 0)}{_part(rows['freed'])}"
        cells["freed"] = labels.NOTHING if means["freed"] is None else free
        cells["with_one_head"] = labels.number(means["with_one_head"], 1)
    bold = frozenset({"difference", "interval", "holm"} if comparison and comparison.significant else ())
    return Row({column.key: cells[column.key] for column in columns}, bold, numbers, arm.runs)


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
    if len(known):
        return labels.mean_sd(float(known.mean()), deviation(known), metrics.decimals(name)) + _part(rows[name])
    states = set(rows["state"])
    return str(rows["state"].iloc[0]) if len(states) == 1 and states != {"finished"} else labels.NOTHING


def _part(values: pd.Series) -> str:
    """Return how many runs a mean is of, where it is not all."""
    known = int(values.notna().sum())
    return f" (n {known})" if known < len(values) else ""


def _mean(values: pd.Series) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) else None


def _notes(spec: Spec, frame: pd.DataFrame, facets: list[Facet]) -> Iterator[str]:
    """Yield the notes of a table, in the order of reading."""
    seeds, rules = spec.seeds, [RULES.get(rule, rule) for rule in sorted(set(frame["rule"]) - {""})]
    few = f" n < {FEW} is a quick look: expect wide intervals." if FEWEST <= len(seeds) < FEW else ""
    yield (
        f"Scores: split {spec.metric[0]}, mean ± sd over runs; n = {len(seeds)} declared per arm (seeds "
        f"{', '.join(map(str, seeds))}). Tested: {', '.join(rules) or 'nothing yet'}.{few}"
    )
    if compares(spec):
        tests = [c.test for facet in facets for c in facet.family.comparisons.values() if c.test]
        yield f"Δ: {metrics.title(primary(spec), unit=False)} minus the baseline's (first arm)." + (
            f" Arms of fewer than {FEWEST} runs have no interval, p or bold, since so few show no spread."
            * any(test.method == "few" for test in tests)
        )
    devices = " and ".join(sorted(set(frame["device"]) - {""}))
    if questions(spec):
        yield " ".join([*_pruning_notes(spec), *([f"On {devices}."] if devices else [])])
    else:
        trained = f"Trained on {devices}. " if devices else ""
        yield f"{trained}docs/statistics.md#comparison-tables explains the columns."
    if compares(spec):
        yield from _power(facets)
    yield from _absent(frame)


def _pruning_notes(spec: Spec) -> Iterator[str]:
    """Explain the columns of a pruned model."""
    asked = questions(spec)
    sections = [cell.experiment.pruning for cell in spec.cells if cell.experiment]
    shares = sorted({section.fraction for section in sections if section and section.fraction is not None})
    if shares:
        cut = ", ".join(f"{share:g}" for share in shares)
        yield f"BLEU and exact match are of the model without the first {cut} of the heads in the order."
    if "curve" in asked:
        yield (
            f"Of the curve in steps of a tenth: {metrics.METRICS['free'].title}, the largest share up to which no step "
            f"costs more than the margin (also as a number of heads); {metrics.METRICS['area'].title}, over all steps."
        )
    if set(asked) - set(CUTTING):
        yield "Where heads were masked alone, BLEU, exact match and NLL are the whole model's."
    if "best_head" in asked:
        yield "One head a layer: the layer that suffers most when the best of its heads has to serve alone."


def _power(facets: list[Facet]) -> Iterator[str]:
    for facet in facets:
        known = [c.detectable for c in facet.family.comparisons.values() if c.detectable is not None]
        parts = []
        if facet.family.correlation is not None:
            parts.append(f"same-seed correlation {labels.number(facet.family.correlation, 2)}")
        if known:
            digits = metrics.decimals(facet.metric)
            ends = dict.fromkeys(labels.number(end, digits) for end in (min(known), max(known)))
            parts.append(f"smallest difference that these runs could show {' to '.join(ends)} (power .80)")
        if parts:
            text = "; ".join(parts)
            yield f"{labels.arm_words(facet.name)}: {text}." if facet.name else f"{text[0].upper()}{text[1:]}."


def _absent(frame: pd.DataFrame) -> Iterator[str]:
    """Yield a note on each: failures and divergences, cells that are no experiments, runs that do not count."""
    named = {"failed": "Failed", "diverged": "Diverged", "inapplicable": "Inapplicable, not run"}
    for state, rows in ((state, frame[frame["state"] == state]) for state in named):
        names = rows["arm" if state == "inapplicable" else "id"]
        notes = rows["note"].replace("", "no reason given")
        listed = list(dict.fromkeys(f"{name} ({note})" for name, note in zip(names, notes, strict=True)))
        more = f"; and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
        if listed:
            yield f"{named[state]}: {'; '.join(listed[:LISTED])}{more}."
    if states := frame["state"][~frame["counts"]].value_counts().to_dict():
        runs = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        yield f"Not counted, because some arm of the corpus and family lacks their seed: {runs}."
