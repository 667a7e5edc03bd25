"""The verdicts as tables (one formatter) and as text for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from study.analysis import labels
from study.analysis.comparison import MARKS
from study.analysis.inference import FEWEST
from study.analysis.measures import Measure
from study.analysis.tables import Block, Column, Row, Table
from study.claims.contrasts import name_of
from study.claims.schema import Claim
from study.claims.verdicts import BETTER, DESCRIPTIVE, NOT_RUN, UNDECIDED, Finding, Verdict, fragile, stance, summaries
from study.metrics import METRICS

RULES = ("docs/statistics.md explains verdicts, findings, columns and the marks § ¶.",)
WIDTH = 100


TEXTS = {
    "id": Column("id", "#"),
    "claim": Column("claim", "claim", "left"),
    "asked": Column("asked", "data and model", "left"),
    "edition": Column("edition", "edition", "left"),
    "verdict": Column("verdict", "verdict", "left"),
    "metric": Column("metric", "measure", "left"),
    "contrast": Column("contrast", "contrast", "left"),
    "finding": Column("finding", "finding", "left"),
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
EFFECTS = Column("effects", "published, BLEU", "left")
SMALLER = "smaller than the margin"
COUNTED = {"correlation": "arms", "draws": "draws", "ratio": "processes"}
"""Unit that a test counts, where that is not seeds, by the kind of its contrast."""


def table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per verdict, as documents and paper show it."""
    columns = [
        *texts(verdicts, "id", "claim", "asked", "edition", "verdict", "finding", "contrast"),
        *(column for number in NUMBERS for column in (number, *[EFFECTS] * (number.key == "margin"))),
        Column("published", "published effect", "left"),
    ]
    rows = []
    for i, verdict in enumerate(verdicts):
        cells = _cells(verdict)
        if i and verdict.claim is verdicts[i - 1].claim:
            cells |= {"claim": "", "published": ""}
        decides = verdict.deciding
        numbers = numbers_of(verdict, decides) | _published_numbers(verdict)
        rows.append(Row(cells, _bold(verdict), numbers, decides.runs if decides else ()))
    return Table("Verdicts", columns, [Block("", rows)], RULES)


def contrasts_table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per contrast, with the numbers behind each verdict."""
    columns = [
        *texts(verdicts, "id", "asked", "edition", "metric", "contrast", "finding"),
        *NUMBERS,
        Column("holm", "Holm p"),
        Column("false_discovery", "BH p"),
        Column("notes", "notes", "left"),
    ]
    rows = [
        Row(_evidence(verdict, found), _bold(verdict, found), numbers_of(verdict, found), found.runs)
        for verdict in verdicts
        for found in verdict.findings
    ]
    return Table("Contrasts behind the verdicts", columns, [Block("", rows)], RULES)


def write(verdicts: Sequence[Verdict], folder: Path) -> list[Path]:
    """Write both tables to a folder, as claims.* and contrasts.*."""
    return [*table(verdicts).write(folder, "claims"), *contrasts_table(verdicts).write(folder, "contrasts")]


def lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the verdicts for a terminal, with every contrast."""
    whole, weak = summaries(verdicts), fragile(verdicts)
    for name, word in whole.items():
        own = [verdict for verdict in verdicts if str(verdict.claim.id) == name]
        claim = own[0].claim
        yield from ("", *_wrapped(f"{claim.id}  {claim.statement} ({claim.type})", 4, -4))
        yield f"    verdict: {word}{', fragile' * (name in weak)}"
        if claim.published:
            yield from _wrapped(f"in the literature: {claim.published}", 4)
        if behind := sweeps(verdicts, claim):
            yield from _wrapped(f"sweeps: {', '.join(behind)}", 4)
        waiting = [one for one in own if one.outcome == NOT_RUN and not any(found.n for found in one.findings)]
        for verdict in sorted(own, key=lambda one: bool(one.superseded)):
            if verdict not in waiting:
                yield from _question_lines(verdict)
        if waiting:
            yield f"    not yet run{', and without effect on the verdict' * (word != NOT_RUN)}:"
        for verdict in waiting:
            asked = asked_in(verdict) + " (second edition)" * (verdict.question.edition > 1)
            names = [found.name for found in verdict.findings if word == NOT_RUN]
            yield from _wrapped(": ".join([asked, *filter(None, ["; ".join(names)])]), 8)


def _question_lines(verdict: Verdict) -> Iterator[str]:
    """Yield one question with every contrast."""
    became, finding = _verdict(verdict), _finding(verdict, verdict.deciding)
    told = finding if became in (labels.NOTHING, NOT_RUN) else f"{became}{', fragile' * verdict.fragile} ({finding})"
    yield from _wrapped(": ".join(one for one in (asked_in(verdict), told) if one != labels.NOTHING), 4)
    if (of := edition(verdict)) != "first":
        yield from _wrapped(f"edition: {of}", 8)
    if verdict.question.post_hoc:
        yield from _wrapped(f"post hoc: {verdict.question.post_hoc}", 8)
    if others := other_verdicts(verdict):
        yield from _wrapped(f"fragile: by {others}", 8)
    for found in verdict.findings:
        yield from _wrapped(_sentence(verdict, found), 8)
    if verdict.note:
        yield from _wrapped(verdict.note, 8)


def other_verdicts(verdict: Verdict) -> str:
    """Return the verdicts by other scores that make a row fragile, such as `NLL: not decided`; empty without any."""
    return "; ".join(f"{score_title(score)}: {outcome}" for score, outcome in verdict.other_outcomes.items())


def score_title(score: str) -> str:
    """`nll/without pronouns` ↦ `NLL, without pronouns`."""
    name, _, subset = score.partition("/")
    metric = METRICS[name]
    return f"{metric.short or metric.title}, {subset}" if subset else metric.short or metric.title


def sweeps(verdicts: Sequence[Verdict], claim: Claim) -> list[str]:
    """Return the names of the sweeps behind a claim; `cost` stands for the measured times."""
    asked = [verdict.question for verdict in verdicts if verdict.claim is claim]
    names = [name for one in asked for name in (one.sweep, *one.with_sweeps, one.benchmark) if name]
    return list(dict.fromkeys(names))


def _sentence(verdict: Verdict, found: Finding) -> str:
    """Return one contrast in a line: its finding, diverged runs, estimate, intervals, n and detectable difference."""
    cells = _evidence(verdict, found)
    parts = [*found.diverged]
    if found.comparison.test is not None:
        parts += [
            f"{cells['estimate']}, 95% CI {cells['interval']}, 90% CI {cells['inner']}",
            f"Holm p {cells['holm']}",
        ]
    if found.margin is not None:
        ratio = "" if cells["margins"] == labels.NOTHING else f", estimate ÷ margin {cells['margins']}"
        parts.append(f"margin {cells['margin']}{ratio}")
    parts.append(cells["n"] if cells["n"].endswith(tuple(COUNTED.values())) else f"{cells['n']} seeds")
    if found.comparison.detectable is not None:
        parts.append(f"detectable {cells['smallest']}")
    if found.sentences is not None:
        parts.append(f"{cells['sentences']} seeds differ over test sentences")
    if found.sentences is not None and found.sentences.interval is not None:
        parts.append(f"95% CI over seeds and sentences {cells['crossed']}")
    return f"{found.name} ({cells['metric']}) [{found.word}]: {', '.join([*parts, *found.notes])}"


def _wrapped(text: str, indent: int, first: int = 0) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * (indent + first), subsequent_indent=" " * (indent + 2))


def asked_in(verdict: Verdict) -> str:
    """`grammar, recurrent; at the best rate (post hoc)`."""
    where = ", ".join(one for one in (verdict.corpus, verdict.family) if one)
    said = "; ".join(one for one in (where, verdict.question.part) if one) or labels.NOTHING
    return f"{said} (post hoc)" if verdict.question.post_hoc else said


def edition(verdict: Verdict) -> str:
    """Return `second`, `first`, or `first, superseded` where the second edition asked the same again."""
    return "first, superseded" if verdict.superseded else ("first", "second")[verdict.question.edition - 1]


def superseded_by(verdict: Verdict) -> str:
    """Return where the second edition asked the question again, such as `grammar, recurrent; eight sizes`."""
    return " and ".join(asked_in(new) for new in verdict.superseded)


def texts(verdicts: Sequence[Verdict], *keys: str) -> list[Column]:
    """Return columns of texts by their keys; without that of editions where all questions are of the first."""
    both = any(one.question.edition > 1 for one in verdicts)
    return [TEXTS[key] for key in keys if both or key != "edition"]


def _unit(verdict: Verdict) -> str:
    """Return the quantity of which an estimate is a difference."""
    kinds = _kinds(verdict)
    special = {"correlation": "rank correlation", "band": "doublings", "ratio": "time, times the baseline's"}
    special["costly"] = "heads, %"
    return next((unit for kind, unit in special.items() if kind in kinds), _measure(verdict).title)


def _kinds(verdict: Verdict) -> set[str]:
    return {contrast.statistic for contrast in verdict.question.contrasts}


def _measure(verdict: Verdict) -> Measure:
    return Measure(verdict.question.metric, verdict.question.by_length)


def _cells(verdict: Verdict) -> dict[str, str]:
    found = verdict.deciding
    cells = dict.fromkeys(("contrast", *(column.key for column in NUMBERS)), labels.NOTHING)
    if found is not None:
        evidence = _evidence(verdict, found)
        cells |= {column.key: evidence[column.key] for column in NUMBERS}
        cells["contrast"] = f"{found.name}: {evidence['metric']}"
    elif verdict.question.contrasts:
        cells["contrast"] = f"{name_of(verdict.question.contrasts[0])}: {_unit(verdict)}"
    return cells | {
        "id": str(verdict.claim.id),
        "claim": verdict.claim.statement,
        "asked": asked_in(verdict),
        "edition": edition(verdict),
        "verdict": _verdict(verdict),
        "finding": _finding(verdict, found),
        "effects": _effects(verdict),
        "published": verdict.claim.published or labels.NOTHING,
    }


def _effects(verdict: Verdict) -> str:
    """`+1.3; +1 (smaller than the margin)`: effects in BLEU, those smaller than the margin last."""
    above, below = (
        ", ".join((f"{one.effect.bleu:+g}" if one.effect.bleu else "0").replace("-", "−") for one in some)
        for some in ([one for one in verdict.effects if one.below == small] for small in (False, True))
    )
    return "; ".join(filter(None, [above, below and f"{below} ({SMALLER})"])) or labels.NOTHING


def _published_numbers(verdict: Verdict) -> dict[str, Any]:
    """Return the published effects for the CSV: in BLEU, in units of the score, and how many are below the margin."""
    return {
        "published_bleu": " ".join(f"{one.effect.bleu:g}" for one in verdict.effects),
        "published_in_units": " ".join(f"{one.value:.4g}" for one in verdict.effects),
        "published_below": sum(one.below for one in verdict.effects) if verdict.effects else None,
    }


def _verdict(verdict: Verdict) -> str:
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


def _finding(verdict: Verdict, found: Finding | None) -> str:
    """Return the finding with its explanation: diverged runs, why it is undecided, or missing runs."""
    if found is None or found.comparison.test is None:
        why = [*(found.diverged if found else ()), verdict.note]
        return "; ".join([verdict.word, *(one for one in why if one)])
    cells, reasons = (
        _evidence(verdict, found),
        [*found.diverged, *([BETTER] if BETTER in found.notes else []), verdict.note],
    )
    if found.straddles:
        interval = f"90% CI {cells['inner']}, margin ±{cells['margin']}"
        reasons.append(f"the difference is clear; whether it passes the margin is not ({interval})")
    elif found.comparison.test.method == "few":
        reasons.append(f"an arm has fewer than {FEWEST} runs")
    elif found.word == UNDECIDED and found.comparison.detectable is not None:
        reasons.append(f"detectable {cells['smallest']}")
    if found.power:
        reasons.append(found.power)
    return "; ".join([verdict.word, *(one for one in reasons if one)])


def _evidence(verdict: Verdict, found: Finding) -> dict[str, str]:
    test, digits = found.comparison.test, _measure(verdict).decimals
    digits = 2 if _kinds(verdict) & {"band", "correlation", "ratio"} else digits
    signed = "ratio" not in _kinds(verdict)
    estimate = interval = labels.NOTHING
    crossed = found.sentences.interval if found.sentences else None
    inner = labels.NOTHING if found.inner is None else labels.interval(*found.inner, digits, signed)
    if test is not None:
        estimate = labels.number(test.difference, digits, signed) + MARKS[test.method]
        interval = labels.interval(test.low, test.high, digits, signed)
    return {
        "id": str(verdict.claim.id),
        "asked": asked_in(verdict),
        "edition": edition(verdict),
        "metric": _unit(verdict),
        "contrast": found.name,
        "finding": found.word,
        "estimate": estimate,
        "interval": interval,
        "inner": inner,
        "margins": labels.number(_in_margins(verdict, found), 2, True),
        "holm": labels.p_value(found.comparison.holm),
        "false_discovery": labels.p_value(found.comparison.false_discovery),
        "margin": labels.number(found.margin, digits),
        "n": _count(verdict, found),
        "smallest": labels.number(found.comparison.detectable, digits),
        "sentences": found.sentences.count if found.sentences else labels.NOTHING,
        "crossed": labels.interval(*crossed, digits, signed) if crossed else labels.NOTHING,
        "notes": "; ".join([*found.diverged, *found.notes]) or labels.NOTHING,
    }


def ends_in_margins(numbers: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the estimate and the ends of both intervals in units of the margin; of ratios, logarithms are divided.

    None without an interval or a margin.
    """
    margin = numbers.get("margin")
    ends = {name: numbers.get(name) for name in ("difference", "low", "high", "low90", "high90")}
    if not margin or any(end is None for end in ends.values()):
        return None
    known = {name: float(end) for name, end in ends.items() if end is not None}
    if numbers.get("metric") == "time":
        known, margin = {name: math.log(end) for name, end in known.items()}, math.log(margin)
    return {name: end / margin for name, end in known.items()}


def _in_margins(verdict: Verdict, found: Finding) -> float | None:
    """Return the estimate in units of its margin; None without one of them."""
    if found.comparison.test is None or found.margin is None:
        return None
    if "ratio" in _kinds(verdict):
        return math.log(found.comparison.test.difference) / math.log(found.margin)
    return found.comparison.test.difference / found.margin


def _count(verdict: Verdict, found: Finding) -> str:
    """`5`, `3 of 5`, or `21 of 25 arms`: what the test counts."""
    count = str(found.n) if found.n == found.declared else f"{found.n} of {found.declared}"
    return " ".join([count, *(unit for kind, unit in COUNTED.items() if kind in _kinds(verdict))])


def _bold(verdict: Verdict, found: Finding | None = None) -> frozenset[str]:
    """Return the bold cells: Holm p < .05, in rows that are not descriptive."""
    found = found or verdict.deciding
    bold = found is not None and found.comparison.significant and found.word != DESCRIPTIVE
    return frozenset({"estimate", "interval"}) if bold else frozenset()


def numbers_of(verdict: Verdict, found: Finding | None) -> dict[str, Any]:
    """One line of the CSV. Empty: not known."""
    claim, question = verdict.claim, verdict.question
    out: dict[str, Any] = {"id": claim.id, "slug": claim.slug, "type": question.type}
    out |= {"corpus": verdict.corpus, "family": verdict.family, "part": question.part}
    out |= {"edition": question.edition, "superseded_by": superseded_by(verdict)}
    out |= {"post_hoc": question.post_hoc, "verdict": verdict.outcome, "finding": verdict.word}
    metric = "time" if question.benchmark else question.metric if question.contrasts else ""
    out |= {"metric": metric, "contrast": found.fields if found else ""}
    out |= {"alone": found.word if found else "", "margin": found.margin if found else None}
    comparison = found.comparison if found else None
    test = comparison.test if comparison else None
    out["method"] = test.method if test else comparison.why if comparison else ""
    for name in ("difference", "low", "high", "se", "df", "p"):
        out[name] = getattr(test, name, None)
    out["low90"], out["high90"] = (found.inner if found else None) or (None, None)
    out["in_margins"] = _in_margins(verdict, found) if found else None
    for name in ("holm", "false_discovery", "detectable"):
        out[name] = getattr(comparison, name, None)
    out |= {"n": found.n if found else 0, "declared": found.declared if found else None}
    tested = found.sentences if found else None
    out["sentences"] = tested.count if tested else None
    out["low crossed"], out["high crossed"] = (tested.interval if tested else None) or (None, None)
    return out | {"notes": "; ".join([*(found.diverged + found.notes if found else ()), verdict.note]).strip("; ")}
