"""The verdicts as tables: one row a verdict, a contrast, a claim, or a question and its verdict by each score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study.analysis import labels
from study.analysis.comparison import MARKS
from study.analysis.inference import ENDS, FEWEST, Test
from study.analysis.measures import Measure
from study.analysis.tables import Block, Column, Row, Table
from study.claims import matrix
from study.claims.contrasts import name_of
from study.claims.verdicts import (
    BETTER,
    DESCRIPTIVE,
    NOT_RUN,
    SATURATED,
    UNDECIDED,
    Finding,
    Verdict,
    by_claim,
    deciding,
    fragile,
    stance,
    summary,
)
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
TEXTS = (
    "claim",
    "asked",
    "edition",
    "verdict",
    "metric",
    "contrast",
    "finding",
    "effects",
    "published",
    "notes",
    "parts",
)
"""Columns that line up on the left."""
TESTED = ("estimate", "interval", "inner", "margin", "margins", "n", "smallest", "sentences", "crossed", "holm",
          "false_discovery")  # fmt: skip
"""Columns of numbers of a contrast."""
DECIDING = ("corpus", "family", "part", "finding", "metric", "contrast", "margin", "difference", "low", "high", "n")
"""Numbers of the row that decides a claim."""
SIGNS = {"holds": "✓", "fails": "✗", "mixed": "✓✗", "not decided": "~"}
BY_SCORE = (
    "Post hoc: every question of a test score on the grammar and on Multi30k, judged by five scores. "
    "✓ holds, ✗ fails, ✓✗ mixed, ~ not decided.",
    "not scored: these runs have no such score. no margin: an equivalence whose margin has no value in this score. "
    "(no margin): judged by p alone.",
    "fragile: another score gives another verdict.",
)


def columns(verdicts: Sequence[Verdict], *keys: str, **heads: str) -> list[Column]:
    """Return columns by their keys; without that of editions where all questions are of the first."""
    both = any(one.question.edition > 1 for one in verdicts)
    shown = [key for key in keys if both or key != "edition"]
    return [Column(key, heads.get(key, HEADS[key]), "left" if key in TEXTS else "right") for key in shown]


def table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per verdict, as documents and paper show it."""
    rows = [_row(one, before) for one, before in zip(verdicts, [None, *verdicts], strict=False)]
    keys = ("id", "claim", "asked", "edition", "verdict", "finding", "contrast", *TESTED[:4], "effects", *TESTED[4:9])
    return Table("Verdicts", columns(verdicts, *keys, "published"), [Block("", rows)], RULES)


def _row(verdict: Verdict, before: Verdict | None = None) -> Row:
    """Return one verdict; the row of its claim before it leaves statement and published effect out."""
    found, claim = verdict.deciding, verdict.claim
    cells, again = evidence(verdict, found), before is not None and before.claim is claim
    name = found.name if found else name_of(verdict.question.contrasts[0])
    cells |= {
        "contrast": f"{name}: {cells['metric']}",
        "verdict": verdict_in_words(verdict),
        "finding": finding_in_words(verdict, found),
        "claim": "" if again else claim.statement,
        "effects": _effects(verdict),
        "published": "" if again else claim.published or labels.NOTHING,
    }
    below = [verdict.margin is not None and abs(value) < verdict.margin for _, value in verdict.effects]
    published = {
        "published_bleu": " ".join(f"{bleu:g}" for bleu, _ in verdict.effects),
        "published_in_units": " ".join(f"{value:.4g}" for _, value in verdict.effects),
        "published_below": sum(below) if below else None,
    }
    return Row(cells, _bold(found), numbers_of(verdict, found) | published, found.weighted.runs if found else ())


def contrasts_table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per contrast, with the numbers behind each verdict."""
    rows = [
        Row(evidence(verdict, found), _bold(found), numbers_of(verdict, found), found.weighted.runs)
        for verdict in verdicts
        for found in verdict.findings
    ]
    shown = columns(verdicts, "id", "asked", "edition", "metric", "contrast", "finding", *TESTED, "notes")
    return Table("Contrasts behind the verdicts", shown, [Block("", rows)], RULES)


def summary_table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per claim: its verdict, how its rows divide, and the row that decides."""
    rows = []
    for claim, own in by_claim(verdicts).items():
        row, told = _row(deciding(own)), {"id": claim, "verdict": summary(own), "parts": parts(own)}
        facts = {"id": claim, "verdict": told["verdict"], "fragile": fragile(own), "parts": told["parts"]}
        told["verdict"] += ", fragile" * fragile(own)
        rows.append(
            Row({**row.cells, **told}, row.bold, facts | {name: row.numbers[name] for name in DECIDING}, row.runs)
        )
    keys = ("id", "claim", "verdict", "parts", "asked", "finding", "contrast", *TESTED[:4], "effects", "published")
    return Table("Summary", columns(verdicts, *keys, asked="deciding row"), [Block("", rows)], RULES)


def parts(own: Sequence[Verdict]) -> str:
    """Return how many rows of a claim have each verdict, such as `2 hold, 1 saturated`; descriptive ones aside."""
    own = [one for one in own if one.counts]
    own = [one for one in own if not one.question.post_hoc] or own
    counts = Counter("saturated" if one.word == SATURATED else one.outcome for one in own)
    short = {"holds": "hold", "fails": "fail"}
    return ", ".join(f"{n} {short.get(word, word) if n > 1 else word}" for word, n in counts.items())


def matrix_table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per question of the matrix that has run; its verdict by each score."""
    shown, rows = [one for one in verdicts if one.by_score and one.outcome != NOT_RUN], []
    for verdict in shown:
        own, known = matrix.own_score(verdict.question), numbers_of(verdict, None)
        cells, fragile = evidence(verdict, None), bool(verdict.other_outcomes)
        cells |= {"decides": score_title(own), "fragile": "fragile" if fragile else labels.NOTHING}
        facts = {name: known[name] for name in ("id", "corpus", "family", "part", "edition", "superseded_by")}
        facts |= {"decides": own, "fragile": fragile}
        for score, by in verdict.by_score.items():
            if isinstance(by, str):
                cells[score], facts[f"{score} verdict"] = f"{labels.NOTHING} {by}", by
                continue
            lost = verdict.question.margin is not None and by.question.margin is None
            cells[score] = f"{SIGNS.get(by.outcome, labels.NOTHING)} {by.outcome}{' (no margin)' * lost}"
            known = numbers_of(by, by.deciding)
            facts |= {f"{score} {name}": known[name] for name in ("verdict", "contrast", *ENDS[:3], "margin")}
        rows.append(Row(cells, numbers=facts, runs=verdict.deciding.weighted.runs if verdict.deciding else ()))
    heads = {"decides": "decides", **{score: score_title(score) for score in matrix.SCORES}, "fragile": "fragile"}
    given = [*columns(shown, "id", "asked", "edition"), *(Column(key, head, "left") for key, head in heads.items())]
    return Table("Verdicts by score, post hoc", given, [Block("", rows)], BY_SCORE)


def write(verdicts: Sequence[Verdict], folder: Path) -> list[Path]:
    """Write both tables to a folder, as claims.* and contrasts.*."""
    return [*table(verdicts).write(folder, "claims"), *contrasts_table(verdicts).write(folder, "contrasts")]


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
    reasons = [*(found.weighted.lost if found else ()), verdict.note]
    if found is not None and found.test.difference is not None:
        cells = evidence(verdict, found)
        reasons.insert(-1, BETTER if BETTER in found.notes else "")
        if found.straddles:
            interval = f"90% CI {cells['inner']}, margin ±{cells['margin']}"
            reasons.append(f"the difference is clear; whether it passes the margin is not ({interval})")
        elif found.test.method == "few":
            reasons.append(f"an arm has fewer than {FEWEST} runs")
        elif found.word == UNDECIDED and found.test.detectable is not None:
            reasons.append(f"detectable {cells['smallest']}")
        reasons.append(found.power)
    return "; ".join(filter(None, [verdict.word, *reasons]))


def evidence(verdict: Verdict, found: Finding | None) -> dict[str, str]:
    """Return a contrast as texts by the keys of columns; dashes where there is none."""
    known, facts = numbers_of(verdict, found), verdict.question.contrasts[0].facts
    measure, signed = Measure(verdict.question.metric, verdict.question.by_length), verdict.question.benchmark is None
    digits = 2 if facts.unit and facts.unit != "heads, %" else measure.decimals

    def interval(low: str, high: str) -> str:
        return labels.interval(known[low], known[high], digits, signed)

    cells = {
        "id": str(verdict.claim.id),
        "asked": asked_in(verdict),
        "edition": edition(verdict),
        "metric": facts.unit or measure.title,
        "estimate": labels.number(known["difference"], digits, signed) + MARKS.get(known["method"], ""),
        "interval": interval("low", "high"),
        "inner": interval("low90", "high90"),
        "margin": labels.number(known["margin"], digits),
        "margins": labels.number(known["in_margins"], 2, True),
        "smallest": labels.number(known["detectable"], digits),
        "sentences": known["sentences"] or labels.NOTHING,
        "crossed": interval("low crossed", "high crossed"),
        "holm": labels.p_value(known["holm"]),
        "false_discovery": labels.p_value(known["false_discovery"]),
    }
    if found is None:
        return dict.fromkeys(HEADS, labels.NOTHING) | cells
    count = str(known["n"]) if known["n"] == known["declared"] else f"{known['n']} of {known['declared']}"
    notes = "; ".join([*found.weighted.lost, *found.notes]) or labels.NOTHING
    return cells | {
        "contrast": found.name,
        "finding": found.word,
        "n": f"{count} {facts.counts}".strip(),
        "notes": notes,
    }


def numbers_of(verdict: Verdict, found: Finding | None) -> dict[str, Any]:
    """Return one line of the CSV. Empty: not known."""
    claim, question, test = verdict.claim, verdict.question, found.test if found else Test("")
    tested, weighted = found.sentences if found else None, found.weighted if found else None
    crossed = (tested.interval if tested else None) or (None, None)
    notes = [*(weighted.lost if weighted else ()), *(found.notes if found else ()), verdict.note]
    return {
        "id": claim.id,
        "slug": claim.slug,
        "type": question.type,
        "corpus": verdict.corpus,
        "family": verdict.family,
        "part": question.part,
        "edition": question.edition,
        "superseded_by": " and ".join(map(asked_in, verdict.superseded)),
        "post_hoc": question.post_hoc,
        "verdict": verdict.outcome,
        "finding": verdict.word,
        "metric": "time" if question.benchmark else question.metric,
        "contrast": found.fields if found else "",
        "alone": found.word if found else "",
        "margin": found.margin if found else None,
        "method": test.method,
        **{name: getattr(test, name) for name in ("difference", "low", "high", "se", "df", "p", "low90", "high90")},
        "in_margins": found.in_margins.get("difference") if found else None,
        **{name: getattr(test, name) for name in ("holm", "false_discovery", "detectable")},
        "n": weighted.n if weighted else 0,
        "declared": weighted.declared if weighted else None,
        "sentences": tested.count if tested else None,
        "low crossed": crossed[0],
        "high crossed": crossed[1],
        "notes": "; ".join(filter(None, notes)),
    }


def _effects(verdict: Verdict) -> str:
    """`+1.3; +1 (smaller than the margin)`: effects in BLEU, those smaller than the margin last."""
    limit = verdict.margin or 0.0
    above, below = (
        ", ".join((f"{bleu:+g}" if bleu else "0").replace("-", "−") for bleu in some)
        for some in (
            [bleu for bleu, value in verdict.effects if abs(value) >= limit],
            [bleu for bleu, value in verdict.effects if abs(value) < limit],
        )
    )
    return "; ".join(filter(None, [above, below and f"{below} (smaller than the margin)"])) or labels.NOTHING


def _bold(found: Finding | None) -> frozenset[str]:
    """Return the bold cells: Holm p < .05, in rows that are not descriptive."""
    bold = found is not None and found.test.significant and found.word != DESCRIPTIVE
    return frozenset({"estimate", "interval"}) if bold else frozenset()
