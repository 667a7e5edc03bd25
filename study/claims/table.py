"""The findings as tables of numbers: one row a contrast, a claim, or a question and its verdict under other rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from study.analysis import labels
from study.analysis.comparison import MARKS
from study.analysis.inference import ENDS, Test, contrast
from study.analysis.runs import Runs
from study.analysis.tables import rounded
from study.claims import verdicts
from study.claims.verdicts import FAILS, HOLDS, NOT_RUN, OPEN, Finding, by_claim
from study.scores import metrics

if TYPE_CHECKING:
    import pandas as pd

HEADS = {
    "estimate": "estimate", "interval": "95% CI", "inner": "90% CI", "margin": "margin", "turns": "turns at",
    "n": "seeds", "needed": "needs", "smallest": "detectable", "shares": "both right / one / none", "holm": "Holm p",
    "false_discovery": "BH p", "second": "second score", "notes": "notes",
}  # fmt: skip
"""Number of a contrast ↦ its name in print."""
OF_SUMMARY = ("corpus", "family", "part", "asked", "finding", "metric", "contrast", "words", "measure", "decimals",
              "margin", *ENDS[:3], "n", "runs")  # fmt: skip
"""Columns of the row that stands for a claim in the summary."""
OF_UPDATES = ("id", "corpus", "family", "part", "verdict", "metric", "contrast", *ENDS[:3])
"""Columns of the table of runs that were tested at different updates."""
OF_MULTIVERSE = ("id", "corpus", "family", "part", "post_hoc", "verdict")
"""Columns of the question in the table of the multiverse."""
UNITS = {"band": "doublings", "correlation": "rank correlation",
         "costly": "heads, %"}  # fmt: skip
"""Statistic ↦ the quantity of which the estimate is a difference, if that is not the score."""
COUNTS = {"correlation": " arms", "draws": " draws"}
"""Statistic ↦ what its test counts, if that is not seeds."""


def contrasts(rows: Iterable[Finding]) -> pd.DataFrame:
    """Return one row per contrast, with the numbers behind each verdict."""
    return rounded(list(map(numbers, rows)))


def tested_updates(rows: Iterable[Finding], runs: Runs) -> pd.DataFrame:
    """Return one row per contrast whose runs were tested at different updates, with the loss of their last update.

    `updates` has each update with its runs, such as `600: 1, 800: 9`. `last_…` is the same contrast of the smoothed
    loss per token on validation at the last update, unadjusted; empty where it is no difference of arms.
    """
    lines = []
    for row in rows:
        updates = runs.updates(row.weighted.arms)
        if len(updates) < 2:
            continue
        facts = numbers(row)
        line = _chosen(facts, OF_UPDATES)
        line["updates"] = ", ".join(f"{update}: {count}" for update, count in updates.items())
        if row.contrast.statistic in ("difference", "interaction"):
            last = contrast([(weight, runs.last_loss(arm)) for weight, arm in row.weighted.parts])
            line |= {"last_difference": last.difference, "last_low": last.low, "last_high": last.high}
        lines.append(line | {"runs": facts["runs"]})
    return rounded(lines)


def summary(rows: Sequence[Finding]) -> pd.DataFrame:
    """Return one row per claim: its verdict, how its questions divide, and the row that stands for it."""
    lines = []
    for claim, questions in by_claim(rows).items():
        row = verdicts.deciding(questions)
        verdict = verdicts.summary(questions)
        line: dict[str, Any] = {
            "id": claim,
            "slug": row.claim.slug,
            "verdict": verdict.word,
            "answer": verdict.words,
            "seeds": verdict.seeds,
            "hold": verdict.counts[HOLDS],
            "fail": verdict.counts[FAILS],
            "open": verdict.counts[OPEN],
            "questions": verdict.counts.total(),
        }
        lines.append(line | _chosen(numbers(row), OF_SUMMARY))
    return rounded(lines)


def multiverse(questions: Iterable[tuple[Finding, Mapping[str, str]]]) -> pd.DataFrame:
    """Return one row per question that votes: its verdict, and the verdict under each change, empty if it is none.

    Args:
        questions: the row that decides a question, and the verdicts by change.
    """
    lines = []
    for row, changed_verdicts in questions:
        facts = numbers(row)
        line = _chosen(facts, OF_MULTIVERSE)
        line["changes"] = sum(word not in ("", NOT_RUN, row.verdict) for word in changed_verdicts.values())
        lines.append(line | dict(changed_verdicts) | {"runs": facts["runs"]})
    return rounded(lines)


def _chosen(facts: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    return {name: facts[name] for name in columns}


def asked_in(row: Finding) -> str:
    """`grammar, recurrent; at the best rate (post hoc)`."""
    pair = ", ".join(filter(None, [row.corpus, row.family]))
    question = "; ".join(filter(None, [pair, row.question.part]))
    return f"{question} (post hoc)" if row.question.post_hoc else question


def told_verdict(row: Finding) -> str:
    """Return the verdict on a question as it is printed: in brackets if it has no vote."""
    return f"({row.verdict})" if row.question.no_vote and row.verdict != NOT_RUN else row.verdict


def cells(row: Finding) -> dict[str, str]:
    """Return a contrast as texts by the keys of columns; dashes where there is nothing."""
    facts = numbers(row)
    texts = {name: text or labels.NOTHING for name, text in printed(facts).items()}
    count = str(facts["n"]) if facts["n"] == facts["declared"] else f"{facts['n']} of {facts['declared']}"
    texts["metric"] = facts["measure"]
    texts["estimate"] += MARKS.get(facts["method"], "")
    texts["n"] = count + COUNTS.get(row.contrast.statistic, "")
    texts["needed"] = str(facts["needed"] or labels.NOTHING)
    texts["notes"] = facts["notes"] or labels.NOTHING
    texts["holm"] = labels.p_value(facts["holm"])
    texts["false_discovery"] = labels.p_value(facts["false_discovery"])
    texts["second"] = f"{texts['second']}: {row.second.word}" if row.second else labels.NOTHING
    return texts


def printed(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return texts of a row of `contrasts` or `summary` by name; empty where there is nothing.

    Args:
        facts: the row as `numbers` has it, or as it is read from the CSV.
    """
    digits = int(facts["decimals"])
    shares = [facts.get(f"{name}_right") for name in ("both", "one", "none")]
    texts = {
        "asked": facts["asked"],
        "contrast": facts["words"],
        "measure": facts["measure"],
        "estimate": labels.number(facts["difference"], digits, sign=True),
        "interval": labels.interval(facts.get("low"), facts.get("high"), digits),
        "inner": labels.interval(facts.get("low90"), facts.get("high90"), digits),
        "margin": labels.number(facts.get("margin"), digits),
        "turns": labels.number(facts.get("turns"), digits),
        "smallest": labels.number(facts.get("detectable"), digits),
        "second": _second(facts),
        "shares": "" if None in shares else " / ".join(labels.number(share, digits, True) for share in shares),
        "published": _published(facts),
    }
    return {name: "" if text == labels.NOTHING else text for name, text in texts.items()}


def _second(facts: Mapping[str, Any]) -> str:
    """Return estimate and interval by the second score of a question."""
    metric = facts.get("second_metric")
    if not metric or facts.get("second_difference") is None:
        return ""
    digits = metrics.decimals(metric)
    estimate = labels.number(facts["second_difference"], digits, True)
    return f"{metrics.title(metric)} {estimate} {labels.interval(facts['second_low'], facts['second_high'], digits)}"


def _published(facts: Mapping[str, Any]) -> str:
    """Return the published effects in BLEU: `+0.4↓, −0.6`. An arrow marks one that is smaller than the margin."""
    margin = facts.get("margin")
    effects = (str(facts.get(name) or "").split() for name in ("published_bleu", "published_in_units"))
    texts = []
    for bleu, in_units in zip(*effects, strict=True):
        text = f"{float(bleu):+g}".replace("-", "−") if float(bleu) else "0"
        below = margin is not None and abs(float(in_units)) < margin
        texts.append(f"{text}↓" if below else text)
    return ", ".join(texts)


def numbers(row: Finding) -> dict[str, Any]:
    """Return one line of the CSV. Empty: not known."""
    claim, question, statistic = row.claim, row.question, row.contrast.statistic
    test, margin, turns = row.test, row.margin, row.turns
    both_right, one_right, none_right = (row.noise and row.noise.shares) or (None, None, None)
    two_decimals = statistic in ("band", "correlation")
    second = row.second.test if row.second else Test("")
    return {
        "id": claim.id,
        "slug": claim.slug,
        "type": question.type,
        "corpus": row.corpus,
        "family": row.family,
        "part": question.part,
        "post_hoc": question.post_hoc,
        "no_vote": question.no_vote,
        "verdict": row.verdict,
        "decides": row.decides,
        "metric": question.metric,
        "contrast": row.name(words=False),
        "asked": asked_in(row),
        "words": row.name(),
        "measure": UNITS.get(statistic, row.measure.title),
        "decimals": 2 if two_decimals else metrics.decimals(row.measure.metric),
        "finding": row.word,
        "margin": margin,
        "turns": turns,
        "method": test.method,
        "difference": test.difference,
        "low": test.low,
        "high": test.high,
        "se": test.se,
        "df": test.df,
        "p": test.p,
        "low90": test.low90,
        "high90": test.high90,
        "holm": test.holm,
        "false_discovery": row.false_discovery,
        "detectable": test.detectable,
        "n": row.weighted.n,
        "declared": row.weighted.declared,
        "needed": row.needed if verdicts.stance(row, row.second) == 0 else None,
        "sentences": math.sqrt(row.noise.variance) if row.noise else None,
        "both_right": both_right,
        "one_right": one_right,
        "none_right": none_right,
        "second_difference": second.difference,
        "second_low": second.low,
        "second_high": second.high,
        "second_metric": question.second if row.second else None,
        "published_bleu": " ".join(f"{bleu:g}" for bleu, _ in row.effects),
        "published_in_units": " ".join(f"{in_units:.4g}" for _, in_units in row.effects),
        "notes": "; ".join(filter(None, [*row.weighted.lost, row.gain, *row.weighted.notes])),
        "runs": " ".join(dict.fromkeys(run for arm in row.weighted.arms for run in arm.runs)),
    }
