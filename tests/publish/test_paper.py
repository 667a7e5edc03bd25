"""Tables beside those of sweeps: other splits by arm, and what each tier took."""

import json
import shutil

import pytest
import typst

from study.analysis.runs import Runs
from study.analysis.tables import Block, Column, Row, Table
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


def test_the_paper_compares_values_and_not_printed_texts(tmp_path):
    """An interval from .0004 is printed from +0.000, and is clear of zero."""
    for name in ("numbers.typ", "template.typ"):
        (tmp_path / "paper").mkdir(exist_ok=True)
        shutil.copy(SOURCE.with_name(name), tmp_path / "paper")
    texts = {"arm": "unscaled", "first": "+0.005", "first ci": "[+0.000, +0.010]", "second": "1", "second ci": "–"}
    values = {"family": "recurrent", "first_effect": 0.005, "first_low": 0.0004, "first_high": 0.01}
    values |= {"second_effect": -1.0, "second_low": None, "second_high": None}
    columns = [Column(name, name) for name in texts]
    Table("", columns, [Block("", [Row(texts, numbers=values)])]).write(tmp_path / "results" / "tables", "agreement-x")
    (tmp_path / "results" / "tables" / "study.json").write_text('{"sizes": {}, "published": []}')
    asked = tmp_path / "paper" / "asked.typ"
    asked.write_text('#import "numbers.typ": effects\n#metadata(effects("x")) <found>')
    (found,) = json.loads(typst.query(str(asked), "<found>", root=str(tmp_path), field="value", one=True))
    assert found == {"family": "recurrent", "arm": "unscaled", "signs": [1, -1], "first": 1, "second": None}
