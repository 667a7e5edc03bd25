"""The findings as tables: one row a contrast, a question, a claim, or a question and its verdict by each score."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from study.analysis import labels
from study.analysis.comparison import MARKS
from study.analysis.inference import ENDS, FEWEST
from study.analysis.tables import Block, Column, Row, Table
from study.claims import matrix, verdicts
from study.claims.verdicts import DESCRIPTIVE, NOT_ASKED, NOT_RUN, SATURATED, UNDECIDED, Finding, by_claim
from study.metrics import METRICS

RULES = ("docs/statistics.md explains verdicts, findings, columns and the marks § ¶ ‡.",)
HEADS = {
    "id": "#", "claim": "claim", "asked": "data and model", "edition": "edition", "verdict": "verdict",
    "metric": "measure", "contrast": "contrast", "finding": "finding", "estimate": "estimate", "interval": "95% CI",
    "inner": "90% CI", "margin": "margin", "effects": "published, BLEU", "margins": "estimate ÷ margin", "n": "seeds",
    "smallest": "detectable", "sentences": "differ over sentences", "crossed": "95% CI, seeds and sentences",
    "holm": "Holm p", "false_discovery": "BH p", "published": "published effect", "notes": "notes", "parts": "rows",
}  # fmt: skip
"""Column ↦ its heading."""
TESTED = ("estimate", "interval", "inner", "margin", "margins", "n", "smallest", "sentences", "crossed", "holm",
          "false_discovery")  # fmt: skip
"""Columns of numbers of a contrast; they line up on the right."""
UNITS = {"band": "doublings", "ratio": "time, times the baseline's", "correlation": "rank correlation",
         "costly": "heads, %"}  # fmt: skip
"""Statistic ↦ the quantity of which the estimate is a difference, if that is not the score."""
COUNTS = {"ratio": " processes", "correlation": " arms", "draws": " draws"}
"""Statistic ↦ what its test counts, if that is not seeds."""
SIGNS = {"holds": "✓", "fails": "✗", "mixed": "✓✗", "not decided": "~"}
BY_SCORE = (
    "Post hoc: every question of a test score on the grammar and on Multi30k, judged by five scores. "
    "✓ holds, ✗ fails, ✓✗ mixed, ~ not decided.",
    "not scored: these runs have no such score. no margin: an equivalence whose margin has no value in this score. "
    "(no margin): judged by p alone.",
    "fragile: another score gives another verdict.",
)


def table(rows: Sequence[Finding]) -> Table:
    """Return one row per question, as documents and paper show it."""
    found = []
    for own in by_claim(rows).values():
        for row in own:
            first = {} if row is own[0] else {"claim": "", "published": ""}
            below = [abs(value) < row.margin for _, value in row.effects if row.margin is not None]
            published = {
                "published_bleu": " ".join(f"{bleu:g}" for bleu, _ in row.effects),
                "published_in_units": " ".join(f"{value:.4g}" for _, value in row.effects),
                "published_below": sum(below) if below else None,
            }
            found.append(_row(row, words(row) | first, numbers(row) | published))
    keys = ("id", "claim", "asked", "edition", "verdict", "finding", "contrast", *TESTED[:4], "effects", *TESTED[4:9])
    return _table("Verdicts", rows, (*keys, "published"), found)


def contrasts_table(rows: Sequence[Finding]) -> Table:
    """Return one row per contrast, with the numbers behind each verdict."""
    keys = ("id", "asked", "edition", "metric", "contrast", "finding", *TESTED, "notes")
    return _table("Contrasts behind the verdicts", rows, keys, [_row(row, cells(row), numbers(row)) for row in rows])


def summary_table(rows: Sequence[Finding]) -> Table:
    """Return one row per claim: its verdict, how its rows divide, and the row that decides."""
    found, names = [], ("corpus", "family", "part", "finding", "metric", "contrast", "margin", *ENDS[:3], "n")
    for claim, own in by_claim(rows).items():
        row, verdict, fragile = verdicts.deciding(own), verdicts.summary(own), verdicts.fragile(own)
        facts, known = {"id": claim, "verdict": verdict, "fragile": fragile, "parts": parts(own)}, numbers(row)
        told = words(row) | {"verdict": verdict + ", fragile" * fragile, "parts": parts(own)}
        found.append(_row(row, told, facts | {name: known[name] for name in names}))
    keys = ("id", "claim", "verdict", "parts", "asked", "finding", "contrast", *TESTED[:4], "effects", "published")
    return _table("Summary", rows, keys, found, asked="deciding row")


def matrix_table(rows: Sequence[Finding]) -> Table:
    """Return one row per question of the matrix that has run; its verdict by each score."""
    titles, found = {score: score_title(score) for score in matrix.SCORES}, []
    shown = [row for row in rows if row.decides and row.by_score and row.verdict != NOT_RUN]
    for row in shown:
        own, fragile = matrix.own_score(row.question), "fragile" if row.other_verdicts else labels.NOTHING
        told, known = cells(row) | {"decides": score_title(own), "fragile": fragile}, numbers(row)
        facts = {name: known[name] for name in ("id", "corpus", "family", "part", "edition", "superseded_by")}
        facts |= {"decides": own, "fragile": bool(row.other_verdicts)}
        for score, by in row.by_score.items():
            if isinstance(by, str):
                told[score], facts[f"{score} verdict"] = f"{labels.NOTHING} {by}", by
                continue
            lost = " (no margin)" if row.question.margin is not None and by.question.margin is None else ""
            told[score], known = f"{SIGNS.get(by.verdict, labels.NOTHING)} {by.verdict}{lost}", numbers(by)
            facts |= {f"{score} {name}": known[name] for name in ("verdict", "contrast", *ENDS[:3], "margin")}
        found.append(replace(_row(row, told, facts), bold=frozenset()))
    keys = ("id", "asked", "edition", "decides", *titles, "fragile")
    heads = {"decides": "decides", "fragile": "fragile", **titles}
    return replace(_table("Verdicts by score, post hoc", shown, keys, found, **heads), notes=BY_SCORE)


def _table(title: str, rows: Sequence[Finding], keys: Iterable[str], found: Sequence[Row], **heads: str) -> Table:
    """Return a table; without the column of editions where all questions are of the first."""
    shown = [key for key in keys if key != "edition" or any(row.question.edition > 1 for row in rows)]
    columns = [Column(key, (HEADS | heads)[key], "right" if key in ("id", *TESTED) else "left") for key in shown]
    return Table(title, columns, [Block("", found)], RULES)


def _row(row: Finding, told: dict[str, str], facts: dict[str, Any]) -> Row:
    """Return a row of a table. Estimate and interval are bold if Holm p < .05, in rows that are not descriptive."""
    bold = {"estimate", "interval"} if row.test.significant and row.word != DESCRIPTIVE else ()
    return Row(told, frozenset(bold), facts, [run for _, arm in row.weighted.parts for run in arm.runs])


def parts(own: Sequence[Finding]) -> str:
    """Return how many rows of a claim have each verdict, such as `2 hold, 1 saturated`; descriptive ones aside."""
    own = [row for row in own if row.counts]
    own = [row for row in own if not row.question.post_hoc] or own
    counts = Counter(SATURATED if row.finding == SATURATED else row.verdict for row in own)
    several = {"holds": "hold", "fails": "fail"}
    return ", ".join(f"{n} {several.get(word, word) if n > 1 else word}" for word, n in counts.items())


def score_title(score: str) -> str:
    """`nll/without pronouns` ↦ `NLL, without pronouns`."""
    name, _, subset = score.partition("/")
    return ", ".join(filter(None, [METRICS[name].short or METRICS[name].title, subset]))


def asked_in(row: Finding) -> str:
    """`grammar, recurrent; at the best rate (post hoc)`."""
    where = "; ".join(filter(None, [", ".join(filter(None, [row.corpus, row.family])), row.question.part]))
    return f"{where} (post hoc)" if row.question.post_hoc else where


def edition(row: Finding) -> str:
    """Return `second`, `first`, or `first, superseded` where the second edition asked the same again."""
    return "first, superseded" if row.superseded_by else ("first", "second")[row.question.edition - 1]


def words(row: Finding) -> dict[str, str]:
    """Return the cells of a row that stands for its question: its verdict and finding with their explanations."""
    told, reasons, stances = cells(row), [*row.weighted.lost, row.better], row.stances
    if row.word == UNDECIDED and row.test.significant and not row.weighted.lost and row.margin is not None:
        interval = f"90% CI {told['inner']}, margin ±{told['margin']}"
        reasons.append(f"the difference is clear; whether it passes the margin is not ({interval})")
    elif row.test.method == "few":
        reasons.append(f"an arm has fewer than {FEWEST} runs")
    elif row.word == UNDECIDED and row.test.detectable is not None:
        reasons.append(f"detectable {told['smallest']}")
    verdict = {
        "none": labels.NOTHING,
        NOT_ASKED: f"{row.verdict}: {row.question.not_asked}",
        "mixed": f"mixed: {stances.count(1)} of {len(stances)} contrasts hold, {stances.count(-1)} fail",
    }
    above, below = list[str](), list[str]()
    for bleu, value in row.effects:
        effect = f"{bleu:+g}" if bleu else "0"
        (below if abs(value) < (row.margin or 0.0) else above).append(effect.replace("-", "−"))
    smaller = f"{', '.join(below)} (smaller than the margin)" if below else ""
    return told | {
        "claim": row.claim.statement,
        "published": row.claim.published or labels.NOTHING,
        "verdict": verdict.get(row.verdict, row.verdict),
        "finding": "; ".join(filter(None, [row.finding, *reasons, row.power, row.unknown])),
        "contrast": f"{row.name()}: {told['metric']}",
        "effects": "; ".join(filter(None, [", ".join(above), smaller])) or labels.NOTHING,
    }


def cells(row: Finding) -> dict[str, str]:
    """Return a contrast as texts by the keys of columns; dashes where there is nothing."""
    known, signed, statistic = numbers(row), row.question.benchmark is None, row.contrast.statistic
    digits = 2 if statistic in ("band", "ratio", "correlation") else row.measure.decimals
    interval, inner, crossed = (
        labels.interval(known[f"low{end}"], known[f"high{end}"], digits, signed) for end in ("", "90", " crossed")
    )
    count = str(known["n"]) if known["n"] == known["declared"] else f"{known['n']} of {known['declared']}"
    return {
        "id": str(row.claim.id), "asked": asked_in(row), "edition": edition(row),
        "metric": UNITS.get(statistic, row.measure.title), "contrast": row.name(), "finding": row.word,
        "estimate": labels.number(known["difference"], digits, signed) + MARKS.get(known["method"], ""),
        "interval": interval, "inner": inner, "crossed": crossed, "margin": labels.number(known["margin"], digits),
        "margins": labels.number(known["in_margins"], 2, True), "n": count + COUNTS.get(statistic, ""),
        "smallest": labels.number(known["detectable"], digits), "sentences": known["sentences"] or labels.NOTHING,
        "holm": labels.p_value(known["holm"]), "false_discovery": labels.p_value(known["false_discovery"]),
        "notes": known["notes"] or labels.NOTHING,
    }  # fmt: skip


def numbers(row: Finding) -> dict[str, Any]:
    """Return one line of the CSV. Empty: not known."""
    claim, question, test, weighted, margin = row.claim, row.question, row.test, row.weighted, row.margin
    if row.contrast.statistic == "ratio":  # a standard error of logarithms beside ratios would mislead
        detectable = None if test.detectable is None else math.exp(test.detectable)
        test, margin = replace(test.mapped(math.exp), se=None, detectable=detectable), math.exp(margin or 0.0)
    low, high = (row.sentences and row.sentences.interval) or (None, None)
    return {
        "id": claim.id, "slug": claim.slug, "type": question.type, "corpus": row.corpus, "family": row.family,
        "part": question.part, "edition": question.edition,
        "superseded_by": " and ".join(map(asked_in, row.superseded_by)), "post_hoc": question.post_hoc,
        "verdict": row.verdict, "finding": row.finding, "metric": "time" if question.benchmark else question.metric,
        "contrast": row.name(words=False), "alone": row.word, "margin": margin, "method": test.method,
        **{name: getattr(test, name) for name in ("difference", "low", "high", "se", "df", "p", "low90", "high90")},
        "in_margins": row.in_margins["difference"], "holm": test.holm, "false_discovery": row.false_discovery,
        "detectable": test.detectable, "n": weighted.n, "declared": weighted.declared,
        "sentences": row.sentences and row.sentences.count, "low crossed": low, "high crossed": high,
        "notes": "; ".join(filter(None, [*weighted.lost, row.better, *weighted.notes, row.power, row.unknown])),
    }  # fmt: skip
