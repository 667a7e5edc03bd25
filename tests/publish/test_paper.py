"""Tables beside those of sweeps: other splits by arm, and what each tier took."""

import json
import re
import shutil

import pytest
import typst

from study.analysis.agreement import CONCLUSIONS
from study.analysis.figures import style
from study.analysis.runs import Runs
from study.analysis.tables import Block, Column, Row, Table
from study.claims.table import SMALLER
from study.publish.paper import SOURCE, further_scores
from study.publish.reproduce import reproduce
from study.publish.results import Results
from study.store import Store


@pytest.fixture
def lab(finished, tmp_path):
    return finished.copy(tmp_path)


def test_other_splits_by_arm_by_hand(lab):
    """Run 0, 1, 2, 3 loses a word in so many of its translations; dot has the runs 0 and 2, bilinear 1 and 3."""
    lab.publish()
    (block,) = further_scores(Results(lab.results.root), Runs(lab.results.root)).blocks
    dot, bilinear = block.rows
    assert block.head == "tiny"
    assert (dot.cells["test/nll"], dot.cells["test/aer"]) == ("1.500 ± 0.000", "")
    n = len(Store(lab.results.runs).hypotheses(lab.ids[0], "long"))
    assert dot.numbers["long/exact"] == pytest.approx(100 * (1 - 1 / n))
    assert bilinear.numbers["long/exact"] == pytest.approx(100 * (1 - 2 / n))


def test_a_tier_has_its_runs_and_hours(lab):
    lab.publish()
    reproduce(lab.results, lambda line: None)
    facts = json.loads((lab.results.root / "tables" / "study.json").read_text())
    assert facts["tiers"] == {"further": {"runs": 4, "hours": "2.0", "devices": ["a processor"]}}
    assert facts["verdicts"]["7"] == "not yet run"
    assert (facts["figures"], facts["agreements"]) == (["forest"], [])


def asked(folder, call, tables):
    """Evaluate a function of the section on transfer, with these tables of a pair `x`."""
    (folder / "paper").mkdir()
    for name in ("numbers.typ", "template.typ", "transfer.typ"):
        shutil.copy(SOURCE.with_name(name), folder / "paper")
    for stem, rows in tables.items():
        columns = [Column(name, name) for name in rows[0].cells]
        Table("", columns, [Block("", rows)]).write(folder / "results" / "tables", f"{stem}-x")
    (folder / "results" / "tables").mkdir(parents=True, exist_ok=True)
    (folder / "results" / "tables" / "study.json").write_text('{"sizes": {}, "published": []}')
    source = folder / "paper" / "asked.typ"
    source.write_text(
        f'#import "numbers.typ": *\n#import "template.typ": *\n#import "transfer.typ": *\n#metadata({call}) <found>'
    )
    return json.loads(typst.query(str(source), "<found>", root=str(folder), field="value", one=True))


def effect(family, arm, first, second):
    """An arm with its effect and half the width of its interval in both sweeps."""
    values = {"family": family, "arm": arm}
    for side, (value, half) in (("first", first), ("second", second)):
        low, high = (None, None) if half is None else (value - half, value + half)
        values |= {f"{side}_effect": value, f"{side}_low": low, f"{side}_high": high}
    return Row({"arm": arm, "first": "+0.000", "second": f"{second[0]:+}"}, numbers=values)


def test_the_paper_compares_values_and_not_printed_texts(tmp_path):
    """An interval from .0004 is printed from +0.000, and is clear of zero."""
    rows = [effect("recurrent", "unscaled", (0.005, 0.0046), (-1.0, None))]
    (found,) = asked(tmp_path, 'effects("x")', {"agreement": rows})
    assert found == {
        "family": "recurrent",
        "arm": "unscaled",
        "shown": ["+0.000", "-1.0"],
        "ratio": -200.0,
        "change": -1.005,
        "signs": [1, -1],
        "first": 1,
        "second": None,
    }


def test_a_published_effect_below_the_margin_is_marked(tmp_path):
    text = f"+3.88; +0.69, 0 ({SMALLER})"
    assert asked(tmp_path, f'effects-marked("{text}")', {}) == "+3.88, +0.69↓, 0↓"


def test_verdicts_that_no_claim_has_are_left_out(tmp_path):
    counts = "(holds: 9, fails: 3, mixed: 1, not_decided: 0, not_asked_as_published: 0, not_yet_run: 2)"
    said = asked(tmp_path, f"verdicts-in-words({counts})", {})
    assert said == "9 hold, 3 fail, 1 is mixed and 2 are not yet run"


def test_letters_of_a_figure_become_text(tmp_path):
    figure, axes = style.subplots(figsize=(2, 2))
    axes.set_ylabel("a < b")
    axes.set_title("$x^2$")
    style.write_picture(figure, tmp_path / "figure.svg")
    svg = (tmp_path / "figure.svg").read_text()
    found = asked(tmp_path, 'lettered(read("../figure.svg"))', {})
    (label,) = re.findall(r"<text[^>]*>a &lt; b</text>", found)
    assert "rotate(-90)" in label
    assert found.count("<text") == svg.count("<!-- ") - 1
    assert found.count('"#DejaVuSans-') == 2, "the formula is drawn as it was"


CLEAR, UNCLEAR = (1.0, 0.5), (0.1, 0.5)
OTHER_WAY = (-1.0, 0.5)


@pytest.mark.parametrize(
    ("conclusions", "brief", "said"),
    [
        (
            ["agree"] * 3,
            "tend to be larger on Multi30k",
            "tends to lose more on Multi30k. In the recurrent family it is",
        ),
        (["opposite"] * 3, "tend to be smaller on Multi30k", "tends to lose less on Multi30k."),
        (
            ["no relation", "agree", "opposite"],
            "says little about its size",
            "says little about the order on Multi30k.",
        ),
        (["not decided", "agree", "not decided"], "is not decided (24 arms", "together do not decide whether"),
        (["no interval"] * 3, "is not decided (24 arms", "It has no interval, so it decides nothing."),
    ],
)
def test_the_section_on_transfer_claims_what_the_intervals_allow(tmp_path, conclusions, brief, said):
    ends = "–" if conclusions[0] == "no interval" else "[0.10, 0.90]"
    correlations = [
        Row(
            {"family": family, "rho": "0.50", "ci": ends, "conclusion": CONCLUSIONS[word]},
            numbers={"family": family, "first_metric": metric, "arms": 24, "conclusion": word},
        )
        for metric in ("nll", "exact")
        for family, word in zip(("all", "recurrent", "transformer"), conclusions, strict=True)
    ]
    correlations[-1].numbers["conclusion"] = "agree"
    effects = [
        effect("recurrent", "a", CLEAR, CLEAR),
        effect("recurrent", "e", CLEAR, (3.0, 0.5)),
        effect("recurrent", "b", CLEAR, OTHER_WAY),
        effect("transformer", "c", UNCLEAR, OTHER_WAY),
        effect("recurrent", "f", CLEAR, UNCLEAR),
        effect("transformer", "d", UNCLEAR, UNCLEAR),
    ]
    functions = ("order-in-brief", "order-in-words", "signs-in-words", "kinds-in-words")
    calls = ", ".join(f'{name}("x")' for name in functions)
    calls += ', sizes-in-words("x", apart: "Sizes. "), longer-in-words("x")'
    calls += ', changed-in-words("x", most: 1), by-kind("x")'
    words = f"({calls}.map(kind => kind.arms.len()))"
    found = asked(tmp_path, words, {"agreement": effects, "correlation": correlations})
    short, long, signs, kinds, sizes, budgets, few, counts = found
    shown = f"0.50{'' if ends == '–' else f' {ends}'}"
    assert brief in short
    assert said in long
    assert f"In the transformer family it is {shown}: {CONCLUSIONS[conclusions[2]]}." in long
    same = conclusions[2] == "agree"
    assert ("the same conclusions" in long, "another conclusion on: transformer." in long) == (same, not same)
    assert signs.startswith("4 of the 6 effects have the same sign on both corpora, and 3 of the 4 whose")
    assert sizes.startswith("Sizes. Where both")
    assert sizes.endswith("between 1 (a, recurrent) and 3 (e, recurrent) times as large; the median is 2.")
    assert counts == [2, 1, 1, 1, 1]
    assert f", in the transformer family {shown} ({CONCLUSIONS[conclusions[2]]}). 4 of the 6" in budgets
    assert "3 of the 4 whose 95% interval at 800 updates" in budgets
    assert "Of the 4 effects that are clear at 800 updates, 2 are not at 3,200: b, recurrent" in budgets
    assert "(+0.000, then -1.0, reversed); f, recurrent (+0.000, then +0.1). Where" in budgets
    assert few.endswith("2 are not at 3,200; these change most: b, recurrent (+0.000, then -1.0, reversed).")
    assert "the grammar misleads" in kinds
