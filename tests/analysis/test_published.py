"""Tables and points of figures, made again from the published runs. `tests/recompute.py` computes them by itself."""

import re

import pandas as pd
import pytest

from study.analysis import agreement
from study.analysis.agreement import PAIRS
from study.analysis.figures.catalogue import FIGURES
from study.analysis.report import compared
from study.folders import CHECKOUT

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


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_names_arms_as_the_tables_of_its_sweeps_do(name):
    figure, table = FIGURES[name], pd.read_csv(RESULTS / "figures" / f"{name}.csv")
    texts = [column for column in ("row", "column", "line", "arm", "family") if column in table]
    drawn = figure.draw(table.astype(dict.fromkeys(texts, object)).fillna(dict.fromkeys(texts, "")))
    keys = [key for key in (*drawn.legends, *(axes.get_legend() for axes in drawn.axes)) if key]
    labels = [*(text for key in keys for text in key.get_texts())]
    labels += [text for axes in drawn.axes for text in axes.get_yticklabels()] if name != "hero" else []
    names = [text.get_text().replace("\n", " ") for axes in drawn.axes for text in axes.texts] if name in PAIRS else []
    words = {*(text.get_text() for text in labels if re.search("[a-z]", text.get_text())), *names}
    assert name not in PAIRS or len(names) > 3
    tables = [RESULTS / "tables" / f"{sweep}.md" for sweep in figure.sweeps]
    pages = [path.read_text(encoding="utf-8") for path in tables if path.exists()]
    cells = [cell.replace("\\", "").strip() for page in pages for line in page.splitlines() for cell in line.split("|")]
    arms = [{*cell.split(", ")} for cell in cells]
    words -= {"recurrent", "transformer", "decoder-only"}
    assert [word for word in words if not any({*word.split(", ")} <= arm for arm in arms)] == []
