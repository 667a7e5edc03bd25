"""Tables and points of figures, made again from the published runs. `tests/recompute.py` computes them by itself."""

import pytest

from study.analysis import agreement
from study.analysis.figures.catalogue import FIGURES
from study.files import CHECKOUT
from study.publish.report import compared

RESULTS = CHECKOUT / "results"


@pytest.mark.parametrize("name", ["heads_alone", "pruning", "symmetry"])
def test_the_table_of_a_sweep_is_made_again(name, study_runs):
    """Prunings without a comparison, with one, and corpora without BLEU."""
    table = compared(study_runs.spec(name), study_runs).table
    assert table.csv() == (RESULTS / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    assert table.markdown() == (RESULTS / "tables" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", agreement.PAIRS)
def test_the_agreement_of_two_sweeps_is_made_again(name, study_runs):
    for stem, table in agreement.compare(study_runs, name).items():
        assert table.csv() == (RESULTS / "tables" / f"{stem}.csv").read_text(encoding="utf-8")
        assert table.markdown() == (RESULTS / "tables" / f"{stem}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIGURES)
def test_the_points_of_a_figure_are_made_again(name, study_runs):
    points = FIGURES[name].points(study_runs, *map(study_runs.spec, FIGURES[name].sweeps))
    expected = (RESULTS / "figures" / f"{name}.csv").read_text(encoding="utf-8")
    assert points.to_csv(index=False, lineterminator="\n") == expected
