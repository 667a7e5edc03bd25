"""Numbers and names as they are printed, in one place: every table and figure words them alike."""

from __future__ import annotations

NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "exact": "exact match",
    "prefix": "prefix accuracy",
    "aer": "alignment error rate",
    "aer_best_head": "alignment error rate, best head",
    "aer_floor": "alignment error rate, its floor",
    "gold_mass": "attention mass on gold",
    "nll": "NLL per sentence",
    "perplexity": "perplexity",
    "contrast": "pronoun pairs right",
    "accuracy": "word accuracy",
    "attends_mass": "encoder weight on gold",
    "attends_argmax": "encoder argmax on gold",
    "attends_head": "encoder argmax on gold, best head",
    "onset": "onset of alignment, step",
    "beyond": "slots beyond the longest training sentence",
    "free": "heads free",
    "area": "mean BLEU of the curve",
    "cliff": "largest loss of BLEU in one step",
    "needed": "heads needed",
    "harmful": "heads harmful",
}
PERCENT = (
    *("exact", "prefix", "contrast", "accuracy", "attends_mass", "attends_argmax", "attends_head", "beyond"),
    *("free", "needed", "harmful"),
)
DECIMALS = {"aer": 3, "aer_best_head": 3, "aer_floor": 3, "gold_mass": 3, "nll": 3, "perplexity": 2, "onset": 0}
NOTHING = "–"


def metric_of(name: str) -> str:
    """`test/exact` ↦ `exact`."""
    return name.split("/")[1]


def title(name: str, unit: bool = True) -> str:
    """`test/exact` ↦ `exact match, %`; `test/exact/kept 0.5` ↦ `exact match (kept 0.5), %`."""
    metric, *subset = name.split("/", 2)[1:]
    words = " ".join([NAMES.get(metric, metric), *(f"({part})" for part in subset)])
    return f"{words}, %" if unit and metric in PERCENT else words


def decimals(name: str) -> int:
    """How many decimals a score is printed with."""
    return DECIMALS.get(metric_of(name), 1)


def number(value: float | None, digits: int = 1, sign: bool = False) -> str:
    """`-3.14159` ↦ `−3.1`, with a true minus sign and no negative zero; a dash for None and NaN."""
    if value is None or value != value:
        return NOTHING
    rounded = round(value, digits) + 0.0
    return f"{rounded:{'+' if sign and rounded else ''},.{digits}f}".replace("-", "−")


def interval(low: float | None, high: float | None, digits: int, sign: bool = True) -> str:
    """`[−1.2, +0.4]`, or a dash where there is none."""
    if low is None or high is None:
        return NOTHING
    return f"[{number(low, digits, sign)}, {number(high, digits, sign)}]"


def p_value(p: float | None) -> str:
    """Three decimals, without the zero that every p begins with: `.012`; below .001 one digit and exponent: `3e-6`."""
    if p is None:
        return NOTHING
    if p == 0:
        return "<1e-300"
    return f"{p:.3f}".removeprefix("0") if p >= 0.001 else f"{p:.0e}".replace("e-0", "e-")


def mean_sd(mean: float | None, sd: float | None, digits: int) -> str:
    """`83.4 ± 1.2`, without the second part where there is one run."""
    return number(mean, digits) if sd is None else f"{number(mean, digits)} ± {number(sd, digits)}"
