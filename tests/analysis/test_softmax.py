"""Saturation of the softmax, by hand and by finite differences."""

import math
import sys

import numpy as np
import pytest
from processes import output_of
from scipy.special import softmax

import study
from study.analysis.figures.softmax import jacobian, points
from study.folders import CHECKOUT as ROOT


def test_the_jacobian_is_that_of_finite_differences():
    logits, step = np.array([[0.3, -1.2, 2.0, 0.7], [5.0, 0.0, -3.0, 1.0]]), 1e-6
    found = jacobian(softmax(logits, axis=-1))
    for j in range(4):
        move = step * np.eye(4)[j]
        slope = (softmax(logits + move, axis=-1) - softmax(logits - move, axis=-1)) / (2 * step)
        assert found[:, :, j] == pytest.approx(slope, abs=1e-9)
    assert np.abs(found).sum(axis=(-2, -1)) == pytest.approx(2 * (1 - (softmax(logits, axis=-1) ** 2).sum(axis=-1)))


def test_equal_logits_give_equal_weights_and_the_jacobian_by_hand():
    weights = softmax(np.zeros(4))
    assert weights.tolist() == [0.25] * 4
    assert jacobian(weights) == pytest.approx(np.eye(4) / 4 - 1 / 16)


def test_two_slots_are_a_logistic_function_of_a_normal_difference():
    """For d = 1 the logits are q k₁ and q k₂; the largest weight is σ(|q| |k₁ − k₂|), its mean by quadrature."""
    x, weight = np.polynomial.hermite_e.hermegauss(80)
    weight /= math.sqrt(2 * math.pi)
    spread = np.abs(x[:, None] * x[None, :]) * math.sqrt(2)
    mean = (weight[:, None] * weight[None, :] / (1 + np.exp(-spread))).sum()
    assert points([1], 2)["largest"].to_numpy() == pytest.approx(mean, abs=0.015)  # 1,000 draws, both arms alike


def test_the_gradient_vanishes_without_the_scale_alone():
    table = points([1, 64, 4096], 10).pivot(index="d", columns="arm", values=["largest", "gradient"])
    assert table.loc[4096, ("gradient", "scale=none")] < 0.06 < 1.5 < table.loc[4096, ("gradient", "scale=rsqrt")]
    assert table["gradient", "scale=none"].is_monotonic_decreasing
    assert table.loc[4096, ("largest", "scale=none")] > 0.97


def test_the_figure_has_the_gradient_and_needs_no_torch(tmp_path):
    figure = study.softmax([1, 16], 4)
    assert [axes.get_title() for axes in figure.axes] == ["largest weight", "entropy / log S", "gradient: Σ|∂aᵢ/∂zⱼ|"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["unscaled", "1/√d"]
    drawn = [line.get_ydata() for line in figure.axes[2].lines if line.get_marker() != "None"]
    assert np.concatenate(drawn) == pytest.approx(points([1, 16], 4)["gradient"].to_numpy())
    script = "import sys, study; study.softmax([1, 16]).savefig('a.svg'); print('torch' in sys.modules)"
    assert output_of(sys.executable, "-P", "-c", script, cwd=tmp_path, PYTHONPATH=str(ROOT)) == "False\n"
    assert (tmp_path / "a.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("d", "slots", "field"), [([], 10, "d"), ([0], 10, "d"), ([4], 1, "slots"), ([4], 999, "slots")]
)
def test_what_cannot_be_drawn_is_refused(d, slots, field):
    with pytest.raises(study.InputError, match=f"^{field}: expected "):
        study.softmax(d, slots)
