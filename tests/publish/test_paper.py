"""Tables beside those of sweeps: other splits by arm, and what each tier took."""

import json

import pytest

from study.analysis.runs import Runs
from study.publish.paper import further_scores
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
