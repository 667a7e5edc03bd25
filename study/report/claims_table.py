"""The verdicts as tables (one formatter) and as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from study.report import wording
from study.report.comparison import MARKS
from study.report.measures import Measure
from study.report.tables import Block, Column, Row, Table
from study.report.verdicts import UNDECIDED, Finding, Verdict
from study.report.weighing import name_of

RULES = (
    "Verdicts, one for each claim, corpus, family and part. supported, contradicted: Holm p < .05 over the contrasts "
    "of the row, in that direction; below the margin: the estimate is smaller than it. contradicted, of an "
    "equivalence: besides, the interval lies outside the margin. no difference larger than the margin: two one-sided "
    "tests, the 90% interval lies inside it; this is what supports an equivalence, and there may be a smaller "
    "difference. saturated: the base at its ceiling or floor. undecided: none of these; of an equivalence there may "
    "be a difference, of a size not known to pass the margin.",
    "The model is score ~ arm + seed over the arms that the row names; intervals are unadjusted 95% t intervals, and "
    "error is controlled within a row. † the paired t decides, since standard deviations differ threefold; ‡ Welch's "
    "t, since an arm diverged or collapsed; § arms resampled, the interval on Fisher's scale; ¶ Student's t of "
    "differences within runs, or of logarithms of ratios within processes. Of several contrasts the weakest is shown "
    "where all must hold, else the strongest.",
    "margin: the smallest difference of interest. Its rule was fixed before the runs (study/report/claims.yaml; that "
    "of claim 29 after some times), its value on the grammar is a twentieth of what attention gains over the final "
    "state in `bottleneck`; –: none asked. Of a ratio m stands for 1/m to m, and so does smallest.",
    "smallest: the smallest difference that these runs could have shown with power .80 at Holm's first level; stands "
    "behind every undecided.",
)
WIDTH = 100


def table(verdicts: Sequence[Verdict]) -> Table:
    """One row a verdict: what the README and the paper show."""
    columns = [
        Column("id", "#"),
        Column("claim", "claim", "left"),
        Column("asked", "corpus, family", "left"),
        Column("verdict", "verdict", "left"),
        Column("contrast", "decides", "left"),
        Column("estimate", "estimate"),
        Column("interval", "95% interval"),
        Column("margin", "margin"),
        Column("n", "n"),
        Column("smallest", "smallest"),
        Column("published", "published effect", "left"),
    ]
    rows = []
    for i, verdict in enumerate(verdicts):
        cells = _cells(verdict)
        if i and verdict.claim is verdicts[i - 1].claim:
            cells |= {"claim": "", "published": ""}
        rows.append(Row(cells, _bold(verdict), _numbers(verdict, verdict.deciding)))
    return Table("Verdicts", columns, [Block("", rows)], RULES)


def contrasts_table(verdicts: Sequence[Verdict]) -> Table:
    """One row a contrast of every verdict: what each verdict rests on."""
    columns = [
        Column("id", "#"),
        Column("asked", "corpus, family", "left"),
        Column("metric", "metric", "left"),
        Column("contrast", "contrast", "left"),
        Column("verdict", "alone", "left"),
        Column("estimate", "estimate"),
        Column("interval", "95% interval"),
        Column("holm", "Holm p"),
        Column("model", "model, where another decides"),
        Column("margin", "margin"),
        Column("n", "n"),
        Column("smallest", "smallest"),
        Column("notes", "notes", "left"),
    ]
    rows = [
        Row(_evidence(verdict, found), _bold(verdict, found), _numbers(verdict, found))
        for verdict in verdicts
        for found in verdict.findings
    ]
    return Table("Contrasts behind the verdicts", columns, [Block("", rows)], RULES[1:])


def write(verdicts: Sequence[Verdict], folder: Path) -> list[Path]:
    """Both tables into a folder, as claims.* and contrasts.*."""
    return [*table(verdicts).write(folder, "claims"), *contrasts_table(verdicts).write(folder, "contrasts")]


def lines(verdicts: Sequence[Verdict], contrasts: bool) -> Iterator[str]:
    """The verdicts for a terminal; with every contrast, or with the one that decides."""
    shown = None
    for verdict in verdicts:
        if verdict.claim is not shown:
            shown = verdict.claim
            yield from ("", *_wrapped(f"{shown.id}  {shown.statement} ({shown.type})", 4, -4))
            if shown.published:
                yield from _wrapped(f"published: {shown.published}", 4)
        asked = asked_in(verdict)
        yield f"    {asked}: {verdict.word}" if asked else f"    {verdict.word}"
        findings = verdict.findings if contrasts else [found] if (found := verdict.deciding) else []
        for found in findings:
            yield from _wrapped(_sentence(verdict, found, contrasts), 8)
        if verdict.note:
            yield from _wrapped(verdict.note, 8)


def _sentence(verdict: Verdict, found: Finding, alone: bool) -> str:
    """One contrast in a line: divergence first, then estimate, interval, n and what n could have shown."""
    cells = _evidence(verdict, found)
    parts = [*found.diverged]
    if found.comparison.test is not None:
        parts += [f"{cells['estimate']} {cells['interval']}", f"Holm p {cells['holm']}"]
    parts += [f"n {cells['n']}"]
    if found.comparison.detectable is not None:
        parts.append(f"smallest difference {cells['smallest']}")
    if found.margin is not None:
        parts.append(f"margin {cells['margin']}")
    if found.comparison.model is not None:
        parts.append(f"the model: {cells['model']}")
    word = f" [{found.word}]" if alone else ""
    return f"{found.name} ({cells['metric']}){word}: {', '.join([*parts, *found.notes])}"


def _wrapped(text: str, indent: int, first: int = 0) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * (indent + first), subsequent_indent=" " * (indent + 2))


def asked_in(verdict: Verdict) -> str:
    """`grammar, recurrent; at the best rate`."""
    where = ", ".join(one for one in (verdict.corpus, verdict.family) if one)
    return "; ".join(one for one in (where, verdict.question.part) if one)


def _unit(verdict: Verdict) -> str:
    """What an estimate is a difference of."""
    kinds = _kinds(verdict)
    special = {"correlation": "rank correlation", "band": "doublings", "ratio": "time, times the baseline's"}
    return next((unit for kind, unit in special.items() if kind in kinds), _measure(verdict).title)


def _kinds(verdict: Verdict) -> set[str]:
    return {contrast.statistic for contrast in verdict.question.contrasts}


def _measure(verdict: Verdict) -> Measure:
    return Measure(verdict.question.metric, verdict.question.by_length)


def _cells(verdict: Verdict) -> dict[str, str]:
    found = verdict.deciding
    cells = dict.fromkeys(("contrast", "estimate", "interval", "margin", "smallest"), wording.NOTHING)
    if found is not None:
        evidence = _evidence(verdict, found)
        cells |= {key: evidence[key] for key in ("estimate", "interval", "margin", "smallest")}
        cells["contrast"] = f"{found.name}: {evidence['metric']}"
    elif verdict.question.contrasts:
        cells["contrast"] = f"{name_of(verdict.question.contrasts[0])}: {_unit(verdict)}"
    return cells | {
        "id": str(verdict.claim.id),
        "claim": verdict.claim.statement,
        "asked": asked_in(verdict) or wording.NOTHING,
        "verdict": _word(verdict, found),
        "n": _count(found) if found else wording.NOTHING,
        "published": verdict.claim.published or wording.NOTHING,
    }


def _word(verdict: Verdict, found: Finding | None) -> str:
    """The verdict, and behind it the divergence rate, what could have been shown, or what it waits for."""
    reasons = [*(found.diverged if found else ()), verdict.note]
    if verdict.word == UNDECIDED and found and found.comparison.detectable is not None:
        reasons.append(f"smallest {_evidence(verdict, found)['smallest']}")
    return "; ".join([verdict.word, *(reason for reason in reasons if reason)])


def _evidence(verdict: Verdict, found: Finding) -> dict[str, str]:
    test, model, digits = found.comparison.test, found.comparison.model, _measure(verdict).decimals
    digits = 2 if _kinds(verdict) & {"band", "correlation", "ratio"} else digits
    signed = "ratio" not in _kinds(verdict)
    estimate = interval = wording.NOTHING
    if test is not None:
        estimate = wording.number(test.difference, digits, signed) + MARKS[test.method]
        interval = wording.interval(test.low, test.high, digits, signed)
    beside = wording.NOTHING
    if model is not None:
        beside = f"{wording.number(model.difference, digits, True)} {wording.interval(model.low, model.high, digits)}"
    return {
        "id": str(verdict.claim.id),
        "asked": asked_in(verdict),
        "metric": _unit(verdict),
        "contrast": found.name,
        "verdict": found.word,
        "estimate": estimate,
        "interval": interval,
        "holm": wording.p_value(found.comparison.holm),
        "model": beside,
        "margin": wording.number(found.margin, digits),
        "n": _count(found),
        "smallest": wording.number(found.comparison.detectable, digits),
        "notes": "; ".join([*found.diverged, *found.notes]) or wording.NOTHING,
    }


def _count(found: Finding) -> str:
    return str(found.n) if found.n == found.declared else f"{found.n} of {found.declared}"


def _bold(verdict: Verdict, found: Finding | None = None) -> frozenset[str]:
    """Holm, nothing else."""
    found = found or verdict.deciding
    return frozenset({"estimate", "interval"}) if found and found.comparison.significant else frozenset()


def _numbers(verdict: Verdict, found: Finding | None) -> dict[str, Any]:
    """One line of the CSV. Empty: not known."""
    claim, question = verdict.claim, verdict.question
    out: dict[str, Any] = {"id": claim.id, "slug": claim.slug, "type": claim.kind(question)}
    out |= {"corpus": verdict.corpus, "family": verdict.family, "part": question.part, "verdict": verdict.word}
    metric = "time" if question.benchmark else question.metric if question.contrasts else ""
    out |= {"metric": metric, "contrast": found.name if found else ""}
    out |= {"alone": found.word if found else "", "margin": found.margin if found else None}
    comparison = found.comparison if found else None
    test, model = (comparison.test, comparison.model) if comparison else (None, None)
    out["method"] = test.method if test else comparison.why if comparison else ""
    for name in ("difference", "low", "high", "se", "df", "p"):
        out[name] = getattr(test, name, None)
    out |= {"holm": getattr(comparison, "holm", None), "detectable": getattr(comparison, "detectable", None)}
    for name in ("difference", "low", "high", "p"):
        out[f"model {name}"] = getattr(model, name, None)
    out |= {"n": found.n if found else 0, "declared": found.declared if found else None}
    return out | {"notes": "; ".join([*(found.diverged + found.notes if found else ()), verdict.note]).strip("; ")}
