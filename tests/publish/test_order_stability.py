"""Stability of orders of heads, by hand."""

import pytest
from plot_cases import Case

from study.analysis.runs import Runs
from study.publish.order_stability import _layers, _over_seeds, _within, rho, stability_table
from study.publish.results import Manifest, Results
from study.records import Score


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


PRUNED = """
  pruning.order: {values: [greedy, gradient]}
  model.width: {values: [32, 64]}
  model.family: {value: transformer}
  model.layers: {value: 3}
  model.attention.heads: {value: 2}
  data.name: {value: grammar}
"""


def test_the_table_of_two_models_of_which_one_run_is_missing(tmp_path):
    """Greedy removal has ONE in every model, the gradient SWAPPED at width 32 and REVERSED at 64."""

    def order(e):
        if e.pruning.order == "greedy":
            return ONE
        return SWAPPED if e.model.width == 32 else REVERSED

    made = Case(tmp_path, "cut", PRUNED, metric="test/area", seeds=(1, 2, 3))
    made.write(
        lambda e: 40.0,
        scores=lambda e: [Score(split="test", metric="free", value=10.0 * e.seed, n=50)],
        diagnostics=lambda e: {"pruning": {"order": list(order(e)), "removed": []}},
    )
    made.path(3, model__width=64, pruning__order="greedy").unlink()
    manifest = Manifest(name="cut", file="sweeps/cut.yaml", sweep_id="0", metric="test/area", code=[], files={})
    (tmp_path / "results" / "sweeps").mkdir()
    (tmp_path / "results" / "sweeps" / "cut.json").write_text(manifest.dumps())
    table = stability_table(Results(tmp_path / "results"), Runs(tmp_path / "results"))
    assert [block.head for block in table.blocks] == ["cut: site=all width=32", "cut: site=all width=64"]
    cells = [[list(row.cells.values()) for row in block.rows] for block in table.blocks]
    assert cells[0] == [
        ["greedy", "3", "–", "1.00", "1.00", "10 to 30"],
        ["gradient", "3", "0.83 ± 0.00", "1.00", "1.00", "10 to 30"],
    ]
    assert cells[1] == [
        ["greedy", "2 of 3", "–", "1.00", "1.00", "10 to 20"],
        ["gradient", "3", "−1.00 ± 0.00", "1.00", "1.00", "10 to 30"],
    ]


def test_places_that_do_not_vary_have_no_correlation():
    alone = places("cross 0 0", "cross 1 0", "cross 2 0")
    assert rho(_within(alone), _within(alone)) is None
    assert _over_seeds([_within(alone), _within(alone)]) is None
