"""The verdicts as tables: one row a verdict, or one row a contrast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study.analysis import labels
from study.analysis.comparison import MARKS
from study.analysis.inference import FEWEST, Comparison
from study.analysis.measures import Measure
from study.analysis.tables import Block, Column, Row, Table
from study.claims.contrasts import name_of
from study.claims.verdicts import BETTER, DESCRIPTIVE, UNDECIDED, Finding, PublishedEffect, Verdict, stance
from study.metrics import METRICS

RULES = ("docs/statistics.md explains verdicts, findings, columns and the marks § ¶ ‡.",)


TEXTS = {
    column.key: column
    for column in (
        Column("id", "#"),
        Column("claim", "claim", "left"),
        Column("asked", "data and model", "left"),
        Column("edition", "edition", "left"),
        Column("verdict", "verdict", "left"),
        Column("metric", "measure", "left"),
        Column("contrast", "contrast", "left"),
        Column("finding", "finding", "left"),
    )
}
NUMBERS = (
    Column("estimate", "estimate"),
    Column("interval", "95% CI"),
    Column("inner", "90% CI"),
    Column("margin", "margin"),
    Column("margins", "estimate ÷ margin"),
    Column("n", "seeds"),
    Column("smallest", "detectable"),
    Column("sentences", "differ over sentences"),
    Column("crossed", "95% CI, seeds and sentences"),
)
"""The columns of numbers that both tables have."""
TESTED = (*NUMBERS, Column("holm", "Holm p"), Column("false_discovery", "BH p"))
EFFECTS = Column("effects", "published, BLEU", "left")
SMALLER = "smaller than the margin"
UNITS = {
    "correlation": "rank correlation",
    "band": "doublings",
    "ratio": "time, times the baseline's",
    "costly": "heads, %",
}
"""Quantity of which an estimate is a difference, where that is not the score, by the kind of its contrast."""
COUNTED = {"correlation": "arms", "draws": "draws", "ratio": "processes"}
"""Unit that a test counts, where that is not seeds, by the kind of its contrast."""


def table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per verdict, as documents and paper show it."""
    columns = [
        *texts(verdicts, "id", "claim", "asked", "edition", "verdict", "finding", "contrast"),
        *(column for number in NUMBERS for column in (number, *[EFFECTS] * (number.key == "margin"))),
        Column("published", "published effect", "left"),
    ]
    rows, before = [], None
    for verdict in verdicts:
        found, claim = verdict.deciding, verdict.claim
        cells = evidence(verdict, found)
        name = found.name if found else "".join(map(name_of, verdict.question.contrasts[:1]))
        cells["contrast"] = f"{name}: {cells['metric']}" if name else labels.NOTHING
        cells |= {"verdict": verdict_in_words(verdict), "finding": finding_in_words(verdict, found)}
        cells |= {"claim": "" if claim is before else claim.statement, "effects": _effects(verdict.effects)}
        cells["published"] = "" if claim is before else claim.published or labels.NOTHING
        rows.append(
            Row(cells, _bold(found), numbers_of(verdict, found) | _published(verdict), found.runs if found else ())
        )
        before = claim
    return Table("Verdicts", columns, [Block("", rows)], RULES)


def contrasts_table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per contrast, with the numbers behind each verdict."""
    columns = [
        *texts(verdicts, "id", "asked", "edition", "metric", "contrast", "finding"),
        *TESTED,
        Column("notes", "notes", "left"),
    ]
    rows = [
        Row(evidence(verdict, found), _bold(found), numbers_of(verdict, found), found.runs)
        for verdict in verdicts
        for found in verdict.findings
    ]
    return Table("Contrasts behind the verdicts", columns, [Block("", rows)], RULES)


def write(verdicts: Sequence[Verdict], folder: Path) -> list[Path]:
    """Write both tables to a folder, as claims.* and contrasts.*."""
    return [*table(verdicts).write(folder, "claims"), *contrasts_table(verdicts).write(folder, "contrasts")]


def texts(verdicts: Sequence[Verdict], *keys: str) -> list[Column]:
    """Return columns of texts by their keys; without that of editions where all questions are of the first."""
    both = any(one.question.edition > 1 for one in verdicts)
    return [TEXTS[key] for key in keys if both or key != "edition"]


def score_title(score: str) -> str:
    """`nll/without pronouns` ↦ `NLL, without pronouns`."""
    name, _, subset = score.partition("/")
    return ", ".join(filter(None, [METRICS[name].short or METRICS[name].title, subset]))


def asked_in(verdict: Verdict) -> str:
    """`grammar, recurrent; at the best rate (post hoc)`."""
    where = ", ".join(filter(None, [verdict.corpus, verdict.family]))
    told = "; ".join(filter(None, [where, verdict.question.part])) or labels.NOTHING
    return f"{told} (post hoc)" if verdict.question.post_hoc else told


def edition(verdict: Verdict) -> str:
    """Return `second`, `first`, or `first, superseded` where the second edition asked the same again."""
    return "first, superseded" if verdict.superseded else ("first", "second")[verdict.question.edition - 1]


def superseded_by(verdict: Verdict) -> str:
    """Return where the second edition asked the question again, such as `grammar, recurrent; eight sizes`."""
    return " and ".join(map(asked_in, verdict.superseded))


def verdict_in_words(verdict: Verdict) -> str:
    """Return the verdict with its explanation: how it is mixed, or why the claim was not asked as published."""
    match verdict.outcome:
        case "none":
            return labels.NOTHING
        case "not asked as published":
            return f"{verdict.outcome}: {verdict.question.not_asked}"
        case "mixed":
            found = [stance(one.word, verdict.question.type) for one in verdict.findings]
            return f"mixed: {found.count(1)} of {len(found)} contrasts hold, {found.count(-1)} fail"
    return verdict.outcome


def finding_in_words(verdict: Verdict, found: Finding | None) -> str:
    """Return the finding with its explanation: diverged runs, why it is undecided, or missing runs."""
    reasons = [*(found.diverged if found else ()), verdict.note]
    if found is not None and found.comparison.test is not None:
        cells = evidence(verdict, found)
        reasons.insert(-1, BETTER if BETTER in found.notes else "")
        if found.straddles:
            interval = f"90% CI {cells['inner']}, margin ±{cells['margin']}"
            reasons.append(f"the difference is clear; whether it passes the margin is not ({interval})")
        elif found.comparison.test.method == "few":
            reasons.append(f"an arm has fewer than {FEWEST} runs")
        elif found.word == UNDECIDED and found.comparison.detectable is not None:
            reasons.append(f"detectable {cells['smallest']}")
        reasons.append(found.power)
    return "; ".join(filter(None, [verdict.word, *reasons]))


def evidence(verdict: Verdict, found: Finding | None) -> dict[str, str]:
    """Return a contrast as texts by the keys of columns; dashes where there is none."""
    question, kind = verdict.question, _kind(verdict)
    measure = Measure(question.metric, question.by_length)
    cells = dict.fromkeys((column.key for column in (*TESTED, *TEXTS.values())), labels.NOTHING)
    cells |= {"id": str(verdict.claim.id), "asked": asked_in(verdict), "edition": edition(verdict)}
    cells["metric"] = UNITS.get(kind, measure.title)
    if found is None:
        return cells
    comparison, test, tested, signed = found.comparison, found.comparison.test, found.sentences, kind != "ratio"
    digits = 2 if kind in ("band", "correlation", "ratio") else measure.decimals
    if test is not None:
        cells["estimate"] = labels.number(test.difference, digits, signed) + MARKS[test.method]
        cells["interval"] = labels.interval(test.low, test.high, digits, signed)
    if found.inner is not None:
        cells["inner"] = labels.interval(*found.inner, digits, signed)
    if tested is not None:
        low, high = tested.interval or (None, None)
        cells |= {"sentences": tested.count, "crossed": labels.interval(low, high, digits, signed)}
    count = str(found.n) if found.n == found.declared else f"{found.n} of {found.declared}"
    return cells | {
        "contrast": found.name,
        "finding": found.word,
        "margins": labels.number(in_margins(verdict, found).get("difference"), 2, True),
        "holm": labels.p_value(comparison.holm),
        "false_discovery": labels.p_value(comparison.false_discovery),
        "margin": labels.number(found.margin, digits),
        "n": f"{count} {COUNTED.get(kind, '')}".strip(),
        "smallest": labels.number(comparison.detectable, digits),
        "notes": "; ".join([*found.diverged, *found.notes]) or labels.NOTHING,
    }


def in_margins(verdict: Verdict, found: Finding | None) -> dict[str, float]:
    """Return an estimate and the ends of its intervals in units of the margin; of ratios, logarithms are divided.

    An end that is not known is left out, and everything without a margin.
    """
    margin = found.margin if found else None
    known = {name: end for name, end in _ends(found).items() if end is not None} if margin is not None else {}
    if margin is not None and _kind(verdict) == "ratio":
        return {name: math.log(end) / math.log(margin) for name, end in known.items()}
    return {name: end / margin for name, end in known.items()} if margin is not None else {}


def _ends(found: Finding | None) -> dict[str, float | None]:
    test = found.comparison.test if found else None
    ends = {name: getattr(test, name, None) for name in ("difference", "low", "high")}
    return ends | dict(zip(("low90", "high90"), (found.inner if found else None) or (None, None), strict=True))


def numbers_of(verdict: Verdict, found: Finding | None) -> dict[str, Any]:
    """Return one line of the CSV. Empty: not known."""
    claim, question = verdict.claim, verdict.question
    comparison = found.comparison if found else Comparison()
    test, tested, ends = comparison.test, found.sentences if found else None, _ends(found)
    crossed = (tested.interval if tested else None) or (None, None)
    notes = [*(found.diverged + found.notes if found else ()), verdict.note]
    return {
        "id": claim.id,
        "slug": claim.slug,
        "type": question.type,
        "corpus": verdict.corpus,
        "family": verdict.family,
        "part": question.part,
        "edition": question.edition,
        "superseded_by": superseded_by(verdict),
        "post_hoc": question.post_hoc,
        "verdict": verdict.outcome,
        "finding": verdict.word,
        "metric": "time" if question.benchmark else question.metric if question.contrasts else "",
        "contrast": found.fields if found else "",
        "alone": found.word if found else "",
        "margin": found.margin if found else None,
        "method": test.method if test else comparison.why,
        **{name: ends[name] for name in ("difference", "low", "high")},
        **{name: getattr(test, name, None) for name in ("se", "df", "p")},
        **{name: ends[name] for name in ("low90", "high90")},
        "in_margins": in_margins(verdict, found).get("difference"),
        **{name: getattr(comparison, name) for name in ("holm", "false_discovery", "detectable")},
        "n": found.n if found else 0,
        "declared": found.declared if found else None,
        "sentences": tested.count if tested else None,
        "low crossed": crossed[0],
        "high crossed": crossed[1],
        "notes": "; ".join(filter(None, notes)),
    }


def _published(verdict: Verdict) -> dict[str, Any]:
    """Return the published effects for the CSV: in BLEU, in units of the score, and how many are below the margin."""
    return {
        "published_bleu": " ".join(f"{one.effect.bleu:g}" for one in verdict.effects),
        "published_in_units": " ".join(f"{one.value:.4g}" for one in verdict.effects),
        "published_below": sum(one.below for one in verdict.effects) if verdict.effects else None,
    }


def _effects(effects: Sequence[PublishedEffect]) -> str:
    """`+1.3; +1 (smaller than the margin)`: effects in BLEU, those smaller than the margin last."""
    above, below = (
        ", ".join((f"{one.effect.bleu:+g}" if one.effect.bleu else "0").replace("-", "−") for one in some)
        for some in ([one for one in effects if one.below == small] for small in (False, True))
    )
    return "; ".join(filter(None, [above, below and f"{below} ({SMALLER})"])) or labels.NOTHING


def _kind(verdict: Verdict) -> str:
    """Return the statistic of a question's contrasts; those with a unit of their own stand alone in a question."""
    return verdict.question.contrasts[0].statistic if verdict.question.contrasts else ""


def _bold(found: Finding | None) -> frozenset[str]:
    """Return the bold cells: Holm p < .05, in rows that are not descriptive."""
    bold = found is not None and found.comparison.significant and found.word != DESCRIPTIVE
    return frozenset({"estimate", "interval"}) if bold else frozenset()
