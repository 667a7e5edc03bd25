"""Tables and points of figures, made again from the published runs. `tests/recompute.py` computes them by itself."""

import json
import re
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Annotation, Text

from study.analysis import agreement
from study.analysis.agreement import PAIRS
from study.analysis.figures.agreement import BEYOND
from study.analysis.figures.catalogue import FIGURES
from study.analysis.report import compared
from study.folders import CHECKOUT

RESULTS = CHECKOUT / "results"
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
TEXT_WIDTH = (21.0 - 2 * 2.4) / 2.54
"""Inches of a line of the paper: A4 without its margins."""


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


@cache
def draw(name, layout="draw"):
    """Draw a published figure from its data."""
    table = pd.read_csv(RESULTS / "figures" / f"{name}.csv")
    texts = [column for column in ("row", "column", "line", "arm", "family") if column in table]
    return getattr(FIGURES[name], layout)(table.astype(dict.fromkeys(texts, object)).fillna(dict.fromkeys(texts, "")))


LAYOUTS = [(name, layout) for name in FIGURES for layout in ("draw", "narrow") if getattr(FIGURES[name], layout)]


@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_words_in_a_figure_cover_neither_words_nor_marks(name, layout, monkeypatch):
    figure, words, write = draw(name, layout), {}, Text.draw

    def written(text, renderer):
        if text.get_visible() and text.get_text().strip():
            words[text] = Text.get_window_extent(text, renderer).padded(-1)
        write(text, renderer)

    monkeypatch.setattr(Text, "draw", written)
    figure.draw_without_rendering()
    pairs = combinations(words.items(), 2)
    assert [(one.get_text(), other.get_text()) for (one, box), (other, second) in pairs if box.overlaps(second)] == []
    for axes in figure.axes:
        dots = [line.get_transform().transform(line.get_xydata()) for line in axes.lines if line.get_marker() != "None"]
        assert [text.get_text() for text in axes.texts if words[text].count_contains(np.concatenate(dots))] == []


@pytest.mark.parametrize("name", ["transfer", "longer", "decoder_only"])
def test_arms_with_clearly_opposite_effects_have_names(name):
    arms = pd.read_csv(RESULTS / "figures" / f"{name}.csv").dropna(subset="arm")
    ends = [arms[[f"{side}low", f"{side}high"]] for side in ("", "second_")]
    clear = np.all([side.prod(axis=1) > 0 for side in ends], axis=0) & (arms["effect"] * arms["second_effect"] < 0)
    drawn = draw(name)
    named = {tuple(text.xy) for axes in drawn.axes for text in axes.texts if isinstance(text, Annotation)}
    assert {*arms.loc[clear, ["effect", "second_effect"]].itertuples(index=False, name=None)} <= named


@pytest.mark.parametrize("name", ["transfer", "longer", "decoder_only"])
def test_every_arm_of_a_pair_is_in_the_panel_or_in_the_list_beside_it(name):
    """Arms that gain are in the panel: a list has large losses alone."""
    table, drawn = pd.read_csv(RESULTS / "figures" / f"{name}.csv").dropna(subset="arm"), draw(name)
    axes = dict(zip((axes.get_label() for axes in drawn.axes), drawn.axes, strict=True))
    assert any(label.endswith(BEYOND) for label in axes)
    for pair, arms in table.groupby("pair"):
        marks = [line.get_xydata() for line in axes[pair].lines if line.get_marker() != "None"]
        places = {tuple(mark) for mark in np.concatenate(marks)}
        shown = arms[[(x, y) in places for x, y in zip(arms["effect"], arms["second_effect"], strict=True)]]
        (left, right), (low, high) = axes[pair].get_xlim(), axes[pair].get_ylim()
        assert all(left < x < right and low < y < high for x, y in places)
        texts = [text.get_text() for text in axes[pair + BEYOND].texts] if pair + BEYOND in axes else []
        ends = [tuple(float(end.replace("−", "-")) for end in re.findall(r"[+−][\d.]+", text)[-2:]) for text in texts]
        rest = arms.drop(shown.index)[["effect", "second_effect"]]
        assert sorted(ends) == sorted(rest.round(1).itertuples(index=False, name=None))
        assert (rest > 0).all(axis=None)


@pytest.mark.parametrize("layout", ["draw", "narrow"])
def test_the_maps_of_the_hero_frame_their_gold_links(layout):
    maps = pd.read_csv(RESULTS / "figures" / "hero.csv")["content"].dropna().map(json.loads)
    framed = [
        [(round(patch.get_x() + 0.45), round(patch.get_y() + 0.45)) for patch in axes.patches]
        for axes in draw("hero", layout).axes[2:]
    ]
    assert framed == [[*map(tuple, attention["gold"])] for attention in maps]


def test_orders_of_a_site_are_sorted_by_the_share_of_heads_that_goes():
    means = pd.read_csv(RESULTS / "figures" / "pruning.csv").groupby(["column", "line"])["free"].mean()
    free = draw("pruning").axes[-1]
    marks = [line for line in free.lines if line.get_marker() not in ("None", ".")]
    shares = iter([float(line.get_xdata()[0]) for line in sorted(marks, key=lambda line: line.get_ydata()[0])])
    for site in ("all sites", "encoder self-attention", "decoder self-attention", "cross-attention"):
        expected = sorted(means[site], reverse=True)
        assert [next(shares) for _ in expected] == pytest.approx(expected), site


def test_letters_of_a_figure_in_the_paper_have_six_points_or_more():
    paper = (RESULTS.parent / "paper" / "main.typ").read_text(encoding="utf-8")
    printed = dict(re.findall(r'drawing\("(\w+)", (\d+)%\)', paper))
    assert {"hero", *PAIRS} & FIGURES.keys() <= printed.keys()
    for name, share in printed.items():
        drawn = draw(name)
        scale = int(share) / 100 * TEXT_WIDTH / drawn.get_figwidth()
        sizes = {text.get_text(): scale * text.get_fontsize() for text in drawn.findobj(Text) if text.get_text()}
        assert {words: size for words, size in sizes.items() if size < 6} == {}, name


def test_letters_of_the_narrow_picture_have_nine_pixels_or_more_on_a_phone():
    """A phone of 390 pixels shows README with a margin of 16 on each side."""
    for name, figure in FIGURES.items():
        if figure.narrow:
            drawn = draw(name, "narrow")
            scale = (390 - 2 * 16) / (72 * drawn.get_figwidth())
            sizes = {text.get_text(): scale * text.get_fontsize() for text in drawn.findobj(Text) if text.get_text()}
            assert {words: size for words, size in sizes.items() if size < 9} == {}
            assert re.search(rf'<source media="[^"]+" srcset="results/figures/{name}_narrow.svg">', README)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_names_arms_as_the_tables_of_its_sweeps_do(name):
    figure, drawn = FIGURES[name], draw(name)
    keys = [key for key in (*drawn.legends, *(axes.get_legend() for axes in drawn.axes)) if key]
    labels = [*(text for key in keys for text in key.get_texts())]
    labels += [text for axes in drawn.axes for text in axes.get_yticklabels()] if name != "hero" else []
    texts = [text.get_text() for axes in drawn.axes for text in axes.texts] if name in PAIRS else []
    names = [text.replace("\n", " ").partition(":")[0] for text in texts]
    words = {*(text.get_text() for text in labels if re.search("[a-z]", text.get_text())), *names}
    assert name not in PAIRS or len(names) > 3
    tables = [RESULTS / "tables" / f"{sweep}.md" for sweep in figure.sweeps]
    pages = [path.read_text(encoding="utf-8") for path in tables if path.exists()]
    cells = [
        cell.replace("\\", "").strip(" *") for page in pages for line in page.splitlines() for cell in line.split("|")
    ]
    arms = [{*cell.split(", ")} for cell in cells]
    words -= {"recurrent", "transformer", "decoder-only", "both gain", "a gain and a loss"}
    assert [word for word in words if not any({*word.split(", ")} <= arm for arm in arms)] == []


def test_bold_intervals_of_comparison_tables_exclude_zero_and_no_others_do():
    counts = {True: 0, False: 0}
    for path in (RESULTS / "tables").glob("*.md"):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
        if not lines[0].startswith("| arm") or "Holm p" not in lines[0]:
            continue
        for ends in re.findall(r"(\**)\\\[([+−\d.]+), ([+−\d.]+)\\\]\**", "\n".join(lines)):
            low, high = (float(end.replace("−", "-")) for end in ends[1:])
            assert bool(ends[0]) == (low > 0 or high < 0) or 0 in (low, high), (path.name, ends)
            counts[bool(ends[0])] += 1
    assert min(counts.values()) > 200
