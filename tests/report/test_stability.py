"""How stable orders of heads are, by hand."""

import pytest

from study.report.orders import _layers, _over_seeds, _within, rho


def places(*heads):
    return {head: float(place) for place, head in enumerate(heads)}


ONE = places("cross 0 0", "cross 0 1", "cross 1 0", "cross 1 1", "cross 2 0", "cross 2 1")
SWAPPED = places("cross 0 1", "cross 0 0", "cross 1 1", "cross 1 0", "cross 2 1", "cross 2 0")
REVERSED = places(*reversed(ONE))


def test_swapped_heads_leave_the_order_of_layers():
    """ρ = 1 − 6 Σd² / (n (n² − 1)): every head moves by one place, so 1 − 6 · 6 / (6 · 35)."""
    assert rho(ONE, SWAPPED) == pytest.approx(1 - 36 / 210)
    assert _over_seeds([_layers(ONE), _layers(SWAPPED)]) == pytest.approx(1)
    assert _over_seeds([_within(ONE), _within(SWAPPED)]) == pytest.approx(-1)
    assert _layers(ONE) == {"cross 0": 0.5, "cross 1": 2.5, "cross 2": 4.5}


def test_the_mean_is_over_all_pairs_of_seeds():
    """1 within {ONE, ONE}, −1 of either with the reversed one."""
    assert _over_seeds([ONE, ONE, REVERSED]) == pytest.approx(-1 / 3)
    assert _over_seeds([ONE]) is None
