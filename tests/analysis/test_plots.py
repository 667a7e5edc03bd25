import json
import math

import matplotlib
import matplotlib.pyplot as plt
import pytest
from plot_cases import Case

from study.analysis.figures import multiples, style
from study.analysis.figures.catalogue import draw_all
from study.analysis.figures.multiples import interval
from study.analysis.runs import Runs
from study.errors import InputError

SCALES = """
  model.attention.key_width: {values: [16, 512]}
  model.attention.scale: {values: [rsqrt, none]}
  model.attention.maps: {value: separate}
"""
HALF = 2.7764451051977987 * math.sqrt(2.5 / 5)
"""Half width of a 95% t interval of five values one apart: t(.975, 4) · sd / √5."""


def rising(e):
    """10 a scale step, 1 a seed."""
    return 50.0 + e.seed - (30.0 if e.model.attention.cross.scale == "none" else 0.0)


@pytest.fixture
def scales(tmp_path):
    case = Case(tmp_path, "scale_parts", SCALES)
    case.write(rising)
    return case


def swept(case):
    return Runs(case.runs, case.sweeps), case.spec


def cell(table, **place):
    for name, value in place.items():
        table = table[table[name] == value]
    return table


def test_means_and_intervals_by_hand():
    assert interval([21.0, 22.0, 23.0, 24.0, 25.0]) == pytest.approx((23.0, 23 - HALF, 23 + HALF))
    assert interval([1.0, 2.0, 3.0, 4.0])[0] == 2.5
    assert interval([1.0, 2.0, 3.0, 4.0])[1] is None
    assert interval([4.0] * 5)[2] is None
    assert interval([1.0, math.nan, 3.0, 4.0, 5.0]) == (None, None, None)


def test_a_hole_keeps_its_dots_loses_its_mean_and_is_marked(scales):
    scales.path(2, model__attention__scale="none", model__attention__key_width=512).unlink()
    gone = scales.path(3, model__attention__scale="rsqrt", model__attention__key_width=16)
    tree = json.loads(gone.read_text()) | {"status": "diverged", "scores": [], "error": "NaN"}
    gone.write_text(json.dumps(tree))
    table = multiples.scale_points(*swept(scales))
    here = cell(table, line="scale=none", x=512)
    assert here["state"].tolist() == ["finished", "missing", "finished", "finished", "finished"]
    assert here["score"].isna().tolist() == [False, True, False, False, False]
    assert here["mean"].isna().all()
    assert cell(table, line="scale=none", x=16)["mean"].notna().all()
    figure = multiples.scale(table)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["no score"]
    assert [text.get_text() for text in figure.axes[-1].texts] == ["unscaled", "1/√d"]
    assert "grammar, 1500 updates, learning rate 0.003, best update on validation, 5 seeds" in figure.get_supxlabel()


def test_an_arm_looks_the_same_everywhere():
    base, plain, variant = map(style.look, ["scale=rsqrt", "scale=none", "scale=none logit_init=matched"])
    assert (base.colour, base.line) == (style.GREY, "-")
    assert (variant.colour, variant.line, plain.line) == (plain.colour, "--", "-")
    for field, values in style.ARMS.items():
        looks = [style.look(f"{field}={value}") for value in values]
        assert len(set(looks)) == len(looks)


def drawn(case, out, *names):
    """Files of these figures, which are drawn into a folder."""
    return dict(draw_all(Runs(case.runs, case.sweeps), out, names))


def test_figures_without_records_are_left_out(scales, tmp_path):
    Case(scales.sweeps.parent, "bottleneck", "  model.memory: {values: [states, final]}\n")
    assert drawn(scales, tmp_path / "out", "lengths", "pruning") == {"lengths": [], "pruning": []}
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match=r"expected hero, scale, lengths, .*, got haeds"):
        drawn(scales, tmp_path / "out", "haeds")


def test_names_within_an_svg_do_not_depend_on_the_last_bits_of_a_layout():
    svg = '<path id="m0123456789"/><use href="#m0123456789" clip-path="url(#p{})"/><clipPath id="p{}"/>'
    one, other = (style.renamed(svg.format(name, name)) for name in ("627ecd606c", "594f434f5e"))
    assert one == other == '<path id="m1"/><use href="#m1" clip-path="url(#p2)"/><clipPath id="p2"/>'


def test_a_notebook_keeps_its_figures_and_its_settings(scales):
    own, size = plt.figure(), matplotlib.rcParams["font.size"]
    figure = multiples.scale(multiples.scale_points(*swept(scales)))
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert (plt.get_fignums(), plt.gcf(), matplotlib.rcParams["font.size"]) == ([own.number], own, size)
    plt.close(own)
