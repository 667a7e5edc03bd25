"""Runs of a question are tested at one update, and arms that differ in the choice of the update alone are one arm."""

import pytest
from claim_cases import RATE, SCORE, Study
from tiny_sweep import Tiny

from study import files
from study.analysis.runs import Runs
from study.errors import InputError
from study.store import records
from study.store.records import Selection
from study.sweep.spec import load

SEEDS = (1, 2, 3, 4, 5)
STEPS = 100


def selection_at(step, rule="best_valid_bleu"):
    return Selection(rule=rule, step=step, value=1.0)


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def test_a_question_of_runs_that_were_tested_at_different_updates_is_refused_unless_it_says_so(study):
    for score, shift in (("dot", 10.0), ("bilinear", 0.0)):
        study.write(score, 0.001, {seed: 80 + shift + seed for seed in SEEDS}, selection=selection_at(STEPS))
    assert study.ask()[0].verdict == "holds"
    study.write("dot", 0.001, {3: 93.0}, selection=selection_at(40))
    with pytest.raises(
        InputError, match=r"checkpoint: expected runs that were tested at the same update, got 40, 100\."
    ):
        study.ask()
    assert study.ask(checkpoint="selected")[0].verdict == "holds"


def test_arms_that_differ_in_the_choice_of_the_tested_update_are_one_arm_at_their_last_update(study):
    """A run that was tested early gives way to the one that another sweep tested at the last update."""
    text = (study.folder / "sweeps" / "wide.yaml").read_text()
    text = text.replace("name: wide", "name: last") + "  training.select: {value: last}\n"
    (study.folder / "sweeps" / "last.yaml").write_text(text)
    steps = study.spec.cells[0].experiment.training.steps
    for score in ("dot", "bilinear"):
        study.write(score, 0.001, {seed: 80.0 + seed for seed in SEEDS}, selection=selection_at(steps))
    study.write("dot", 0.001, {3: 10.0}, selection=selection_at(steps - 1))
    other = load(study.folder / "sweeps" / "last.yaml")
    (cell,) = [
        c for c in other.cells if (c.overrides[SCORE], c.overrides[RATE], c.experiment.seed) == ("dot", 0.001, 3)
    ]
    record = Tiny.record(cell, 99.0).model_copy(update={"selection": selection_at(steps, "last")})
    files.write(study.runs / cell.id / "record.json", records.dumps(record))
    runs = Runs(study.runs, study.folder / "sweeps")
    arms = runs.named_arms(["wide", "last"], "grammar", "recurrent")
    (dot,) = [arm for arm in arms if arm.has({SCORE: "dot", RATE: 0.001})]
    assert {run.seed: run.id for run in dot.runs}[3] == cell.id
    assert sorted(run.seed for run in dot.runs) == list(SEEDS)
