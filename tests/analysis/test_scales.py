"""The best share of the learning rate: the vertex of a parabola, computed by hand."""

import pytest

from study.analysis.scales import EXPONENTS, vertex


@pytest.mark.parametrize(
    ("losses", "place"),
    [
        ([1.0625, 1.0, 1.0625], -0.25),  # 1 + (e + 1/4)²
        ([1.04, 1.0025, 1.09], -0.2),  # 1 + (e + 1/5)²
        ([1.0, 1.5, 2.5], None),  # least before the first share
        ([1.0, 1.0, 1.0], None),
        ([1.0, 2.0, 1.0], None),  # not convex
    ],
)
def test_the_best_exponent_is_the_vertex_or_none_outside_the_shares(losses, place):
    assert vertex(EXPONENTS, losses) == (place if place is None else pytest.approx(place))
