"""The textbook curves: exact at their ends, monotone between, and written in three forms."""

import numpy as np
import pytest

from study.__main__ import main
from study.analysis.figures import softmax as figure


@pytest.mark.parametrize("keys", [3, 32])
def test_softmax_goes_from_uniform_to_one_slot(keys, monkeypatch):
    monkeypatch.setattr(figure, "DEVIATIONS", np.array([0.0, *np.logspace(-1, 3, 9), 1e9]))
    curve = figure.saturation(keys)
    assert curve["largest_weight"].is_monotonic_increasing
    assert curve["entropy"].is_monotonic_decreasing
    ends = curve.iloc[[0, -1]]
    np.testing.assert_allclose(ends["largest_weight"], [1 / keys, 1], atol=1e-12)
    np.testing.assert_allclose(ends["entropy"], [1, 0], atol=1e-12)


def test_two_keys_are_an_integral(monkeypatch):
    """The larger of two weights is σ(|s|), s ~ N(0, 2σ²)."""
    monkeypatch.setattr(figure, "DEVIATIONS", np.array([0.5, 2.0]))
    monkeypatch.setattr(figure, "DRAWS", 200_000)
    x = np.linspace(-8, 8, 100_001)
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    wanted = [np.trapezoid(density / (1 + np.exp(-sd * np.sqrt(2) * abs(x))), x) for sd in (0.5, 2.0)]
    np.testing.assert_allclose(figure.saturation(2)["largest_weight"], wanted, atol=2e-3)


def test_the_variance_of_a_dot_product_is_its_size():
    products = figure.variances().pivot(index="d", columns="scale")
    exact, drawn = products["exact"], products["drawn"]
    assert exact.loc[64].to_dict() == {"none": 64.0, "rsqrt": 1.0, "inverse": 1 / 64}
    assert (exact["none"] == exact.index).all()
    np.testing.assert_allclose(drawn / exact, 1, atol=0.1)


def test_study_softmax_writes_the_figure(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(figure, "PAIRS", 50)
    assert main(["softmax", "--out", str(tmp_path / "new")]) == 0
    names = ("softmax.csv", "softmax.png", "softmax.svg")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == list(names)
    assert str(tmp_path / "new" / names[0]) in capsys.readouterr().out
    first = {name: (tmp_path / "new" / name).read_bytes() for name in names}
    assert main(["softmax", "--out", str(tmp_path / "new")]) == 0
    assert first == {name: (tmp_path / "new" / name).read_bytes() for name in names}
    (tmp_path / "file").touch()
    assert main(["softmax", "--out", str(tmp_path / "file")]) == 2
    assert "--out" in capsys.readouterr().err
