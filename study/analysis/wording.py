"""Numbers as they are printed, in one place: every table and figure words them alike."""

from __future__ import annotations

NOTHING = "–"


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
