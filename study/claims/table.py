"""The findings as tables of numbers: one row a contrast, a claim, or a question and its verdict under other rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from study.analysis import labels
from study.analysis.comparison import MARKS
from study.analysis.inference import ENDS
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
              "margin", *ENDS[:3], "n")  # fmt: skip
"""Columns of the row that stands for a claim in the summary."""
UNITS = {"band": "doublings", "ratio": "time, times the baseline's", "correlation": "rank correlation",
         "costly": "heads, %"}  # fmt: skip
"""Statistic ↦ the quantity of which the estimate is a difference, if that is not the score."""
COUNTS = {"ratio": " processes", "correlation": " arms", "draws": " draws"}
"""Statistic ↦ what its test counts, if that is not seeds."""


def contrasts(rows: Iterable[Finding]) -> pd.DataFrame:
    """Return one row per contrast, with the numbers behind each verdict."""
    return rounded([numbers(row) | _runs(row) for row in rows])


def summary(rows: Sequence[Finding]) -> pd.DataFrame:
    """Return one row per claim: its verdict, how its questions divide, and the row that stands for it."""
    found = []
    for claim, own in by_claim(rows).items():
        row, verdict = verdicts.deciding(own), verdicts.summary(own)
        counts, known = verdict.counts, numbers(row)
        facts: dict[str, Any] = {"id": claim, "slug": row.claim.slug, "verdict": verdict.word, "answer": verdict.words}
        facts |= {"seeds": verdict.seeds, "hold": counts[HOLDS], "fail": counts[FAILS], "open": counts[OPEN]}
        facts |= {"questions": counts.total()} | {name: known[name] for name in OF_SUMMARY}
        found.append(facts | _runs(row))
    return rounded(found)


def multiverse(found: Iterable[tuple[Finding, Mapping[str, str]]]) -> pd.DataFrame:
    """Return one row per question that votes: its verdict, and the verdict under each change, empty if it is none.

    Args:
        found: the row that decides a question, and the verdicts by change.
    """
    rows = []
    for row, under in found:
        known = {name: numbers(row)[name] for name in ("id", "corpus", "family", "part", "post_hoc", "verdict")}
        changed = [name for name, word in under.items() if word not in ("", NOT_RUN, row.verdict)]
        rows.append(known | {"changes": len(changed)} | dict(under) | _runs(row))
    return rounded(rows)


def _runs(row: Finding) -> dict[str, str]:
    """Return the ids of the runs behind a row."""
    return {"runs": " ".join(dict.fromkeys(run for _, arm in row.weighted.parts for run in arm.runs))}


def asked_in(row: Finding) -> str:
    """`grammar, recurrent; at the best rate (post hoc)`."""
    where = "; ".join(filter(None, [", ".join(filter(None, [row.corpus, row.family])), row.question.part]))
    return f"{where} (post hoc)" if row.question.post_hoc else where


def told_verdict(row: Finding) -> str:
    """Return the verdict on a question as it is printed: in brackets if it has no vote."""
    return f"({row.verdict})" if row.question.no_vote and row.verdict != NOT_RUN else row.verdict


def cells(row: Finding) -> dict[str, str]:
    """Return a contrast as texts by the keys of columns; dashes where there is nothing."""
    known, statistic = numbers(row), row.contrast.statistic
    told = {name: text or labels.NOTHING for name, text in printed(known).items()}
    count = str(known["n"]) if known["n"] == known["declared"] else f"{known['n']} of {known['declared']}"
    return told | {
        "metric": known["measure"],
        "estimate": told["estimate"] + MARKS.get(known["method"], ""), "n": count + COUNTS.get(statistic, ""),
        "needed": str(known["needed"] or labels.NOTHING), "notes": known["notes"] or labels.NOTHING,
        "holm": labels.p_value(known["holm"]), "false_discovery": labels.p_value(known["false_discovery"]),
        "second": f"{told['second']}: {row.second.word}" if row.second else labels.NOTHING,
    }  # fmt: skip


def printed(known: Mapping[str, Any]) -> dict[str, str]:
    """Return texts of a row of `contrasts` or `summary` by name; empty where there is nothing.

    Args:
        known: the row as `numbers` has it, or as it is read from the CSV.
    """
    digits, signed, margin = int(known["decimals"]), known["metric"] != "time", known.get("margin")
    interval, inner = (
        labels.interval(known.get(f"low{end}"), known.get(f"high{end}"), digits, signed) for end in ("", "90")
    )
    parts = [known.get(f"{name}_right") for name in ("both", "one", "none")]
    effects = zip(*(str(known.get(f"published_{name}") or "").split() for name in ("bleu", "in_units")), strict=True)
    told = {
        "asked": known["asked"], "contrast": known["words"], "measure": known["measure"],
        "estimate": labels.number(known["difference"], digits, signed), "interval": interval, "inner": inner,
        **{name: labels.number(known.get(name), digits) for name in ("margin", "turns")},
        "smallest": labels.number(known.get("detectable"), digits), "second": "",
        "shares": "" if None in parts else " / ".join(labels.number(part, digits, True) for part in parts),
        "published": ", ".join(
            (f"{float(bleu):+g}".replace("-", "−") if float(bleu) else "0")
            + "↓" * (margin is not None and abs(float(units)) < margin)
            for bleu, units in effects
        ),
    }  # fmt: skip
    if (metric := known.get("second_metric")) and known.get("second_difference") is not None:
        middle, low, high = (known[f"second_{name}"] for name in ENDS[:3])
        digits = metrics.decimals(metric)
        told["second"] = f"{metrics.title(metric)} {labels.number(middle, digits, True)} "
        told["second"] += labels.interval(low, high, digits)
    return {name: "" if text == labels.NOTHING else text for name, text in told.items()}


def numbers(row: Finding) -> dict[str, Any]:
    """Return one line of the CSV. Empty: not known."""
    claim, question, test, weighted, margin = row.claim, row.question, row.test, row.weighted, row.margin
    turns = row.turns
    if row.contrast.statistic == "ratio":  # a standard error of logarithms beside ratios would mislead
        detectable, turns = (None if value is None else math.exp(value) for value in (test.detectable, turns))
        test, margin = replace(test.mapped(math.exp), se=None, detectable=detectable), math.exp(margin or 0.0)
    noise, other = row.noise, row.second
    both, one, none = (noise.shares if noise and noise.shares else None) or (None, None, None)
    decimals = 2 if row.contrast.statistic in ("band", "ratio", "correlation") else metrics.decimals(row.measure.metric)
    needed = row.needed if verdicts.stance(row) == 0 else None
    return {
        "id": claim.id, "slug": claim.slug, "type": question.type, "corpus": row.corpus, "family": row.family,
        "part": question.part, "post_hoc": question.post_hoc, "no_vote": question.no_vote, "verdict": row.verdict,
        "decides": row.decides, "metric": "time" if question.benchmark else question.metric,
        "contrast": row.name(words=False), "asked": asked_in(row), "words": row.name(),
        "measure": UNITS.get(row.contrast.statistic, row.measure.title), "decimals": decimals,
        "finding": row.word, "margin": margin, "turns": turns, "method": test.method,
        **{name: getattr(test, name) for name in ("difference", "low", "high", "se", "df", "p", "low90", "high90")},
        "holm": test.holm, "false_discovery": row.false_discovery,
        "detectable": test.detectable, "n": weighted.n, "declared": weighted.declared, "needed": needed,
        "sentences": noise and math.sqrt(noise.variance), "both_right": both, "one_right": one, "none_right": none,
        **{f"second_{name}": other and getattr(other.test, name) for name in ENDS[:3]},
        "second_metric": other and question.second,
        "published_bleu": " ".join(f"{bleu:g}" for bleu, _ in row.effects),
        "published_in_units": " ".join(f"{value:.4g}" for _, value in row.effects),
        "notes": "; ".join(filter(None, [*weighted.lost, row.better, *weighted.notes])),
    }  # fmt: skip
