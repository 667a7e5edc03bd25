"""Text of the world in figures: it is drawn as it is, also where it looks like a formula or has letters of the reader's
fonts.
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from tiny_sweep import MAP

from study.analysis.figures import run, style

ROOT = Path(__file__).parents[2]
HAN = "中文"


@pytest.fixture
def font(tmp_path):
    """The family of a font of two letters that the house font lacks; each is a box of its own."""
    names = {ord(letter): f"u{ord(letter):04X}" for letter in HAN}
    pen = TTGlyphPen(None)
    pen.moveTo((50, 0))
    for corner in ((50, 800), (900, 800), (900, 0)):
        pen.lineTo(corner)
    pen.closePath()
    box, order = pen.glyph(), [".notdef", *names.values()]
    built = FontBuilder(1000, isTTF=True)
    built.setupGlyphOrder(order)
    built.setupCharacterMap(names)
    built.setupGlyf(dict.fromkeys(order, box))
    built.setupHorizontalMetrics(dict.fromkeys(order, (1000, 50)))
    built.setupHorizontalHeader(ascent=800, descent=-200)
    built.setupNameTable({"familyName": "Two Boxes", "styleName": "Regular", "psName": "TwoBoxes-Regular"})
    built.setupOS2()
    built.setupPost()
    built.save(tmp_path / "boxes.ttf")
    known = list(font_manager.fontManager.ttflist)
    font_manager.fontManager.addfont(tmp_path / "boxes.ttf")
    yield "Two Boxes"
    font_manager.fontManager.ttflist = known


def drawn(path, token, text):
    """Draw a map, and return the SVG and the warnings of its letters."""
    shown = MAP | {"source": [token, "b", "</s>"], "text": {"source": text, "target": text}}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        style.write_picture(run.draw_translations([(shown, "model")]), path)
    return path.read_text(), [str(one.message) for one in seen if "font" in str(one.message)]


@pytest.mark.parametrize("text", ["It costs $5 or $10", "$$", "$x^$", "a $\\frac$ b"])
def test_a_dollar_is_a_letter(text, tmp_path):
    """Also where the reader's settings ask for formulas."""
    with matplotlib.rc_context({"text.usetex": True, "axes.formatter.use_mathtext": True}):
        svg, _ = drawn(tmp_path / "map.svg", text, text)
    dollar = ord("$")
    if matplotlib.__version_info__ >= (3, 11):  # it names glyphs by their place in the font
        dollar = font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_char_index(dollar)
    assert svg.count(f'href="#DejaVuSans-{dollar:x}"') == 3 * text.count("$"), "in a tick, a title and the heading"
    assert "mathdefault" not in svg


@pytest.mark.parametrize("setting", ["font.family", "font.sans-serif"])
def test_letters_that_the_house_font_lacks_are_of_the_readers_fonts(setting, font, tmp_path):
    plain, lacking = drawn(tmp_path / "map.svg", "a", "plain")
    assert not lacking
    _, lacking = drawn(tmp_path / "map.svg", HAN, HAN)
    (line,) = lacking
    assert line.startswith("letters are drawn as boxes: Glyph 20013 ")
    with matplotlib.rc_context({setting: ["No Such Font", font]}):
        svg, lacking = drawn(tmp_path / "map.svg", HAN, HAN)
        assert not lacking
        assert "TwoBoxes-Regular" in svg
        assert drawn(tmp_path / "map.svg", "a", "plain")[0] == plain, "what the house font has stays in it"


def test_study_show_draws_a_run_whose_tokens_look_like_formulas(tmp_path):
    """As a user calls it: a process of its own, in an empty folder."""
    identity = "grammar-recurrent-dot-c61874e4-s1"
    from study.store.folder import Store

    folder, empty = tmp_path / "runs" / identity, tmp_path / "empty"
    folder.mkdir(parents=True)
    empty.mkdir()
    published = Store(ROOT / "results")
    (folder / "record.json").write_text(published.text(identity))
    shown = published.attention(identity)
    shown["source"][:2] = ["▁US$$", "$x^$"]
    (folder / "attention.json").write_text(json.dumps(shown))
    command = [sys.executable, "-P", "-m", "study", "show", str(folder), "--plot", "map.png"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert (empty / "map.png").stat().st_size > 1000
