"""Choice of the arm of a family that stands beside other systems, by hand."""

import pytest
from plot_cases import Case

from study import files, records
from study.analysis.runs import Runs
from study.errors import InputError
from study.publish.leaderboard import leaderboard_table
from study.publish.results import Manifest, Results
from study.records import Score

FIXED = "  data.name: {value: multi30k}\n  model.attention.heads: {values: [1, 2]}\n"


def board(folder):
    return leaderboard_table(Results(folder / "results"), Runs(folder / "results"))


def case(folder, name, parameters, valid, test):
    """A published sweep with these functions of the experiment as BLEU on validation and on the first test."""

    def scores(e):
        found = {"valid": valid(e), "test_2016_flickr": test(e), "test_2017_flickr": 30.0}
        return [Score(split=s, metric="bleu", value=v, n=1000, signature="tok:13a") for s, v in found.items()]

    made = Case(folder, name, parameters, metric="test_2016_flickr/chrf", seeds=(1, 2, 3))
    made.write(lambda e: 0.0, scores=scores)
    manifest = Manifest(
        name=name, file=f"sweeps/{name}.yaml", sweep_id="0", metric="test_2016_flickr/chrf", code=[], files={}
    )
    (folder / "results" / "sweeps").mkdir(exist_ok=True)
    (folder / "results" / "sweeps" / f"{name}.json").write_text(manifest.dumps())
    return made


def test_validation_chooses_and_the_test_is_read(tmp_path):
    """Two heads have 38, 39 and 40 on validation and are taken, though one head is better on the test.

    36, 37 and 38 on it: mean 37, sd 1, and t(.975, 2) = 4.3027 times 1/√3 on either side.
    """
    heads = lambda e: e.model.attention.cross.heads  # noqa: E731
    family = "  model.family: {value: transformer}\n"
    case(tmp_path, "heads", FIXED + family, lambda e: 35.0 + heads(e) + e.seed, lambda e: 39.0 - 2 * heads(e) + e.seed)
    case(tmp_path, "again", FIXED + family, lambda e: 35.0 + heads(e) + e.seed, lambda e: 39.0 - 2 * heads(e) + e.seed)
    pruned = family + "  pruning.order: {values: [random, gradient]}\n  data.name: {value: multi30k}\n"
    case(tmp_path, "cut", pruned, lambda e: 99.0, lambda e: 99.0)
    ours, others = board(tmp_path).blocks
    (row,) = ours.rows
    assert (row.numbers["arm"], row.cells["n"]) == ("heads=2", "3")
    assert (row.cells["bleu"], row.cells["interval"]) == ("37.00 ± 1.00", "[34.52, 39.48]")
    assert row.cells["valid"] == "39.00 ± 1.00"
    assert row.numbers["high"] == pytest.approx(37 + 4.302653 / 3**0.5)
    assert "tok:13a" in row.cells["scorer"]
    assert "JoeyNMT transformer, 11M parameters" in {row.cells["system"] for row in others.rows}


def test_one_run_has_no_interval_and_none_leaves_the_others(tmp_path):
    made = case(tmp_path, "one", FIXED + "  model.family: {value: transformer}\n", lambda e: 38.0, lambda e: 37.0)
    paths = sorted(made.runs.glob("*/record.json"))
    for path in paths[1:]:
        path.unlink()
    ours, _ = board(tmp_path).blocks
    cells = ("bleu", "interval", "n")
    assert [[row.cells[name] for name in cells] for row in ours.rows] == [["37.00", "–", "1 of 3"]]
    paths[0].unlink()
    assert [block.head for block in board(tmp_path).blocks] == ["others"]


def test_a_diverged_run_keeps_its_arm_out_and_is_said_and_a_failed_one_is_a_hole(tmp_path):
    """Two heads are ahead on validation, until one of their runs diverges."""
    heads = lambda e: e.model.attention.cross.heads  # noqa: E731
    family = "  model.family: {value: transformer}\n"
    made = case(tmp_path, "heads", FIXED + family, lambda e: 35.0 + heads(e), lambda e: 30.0 + heads(e))
    path = made.path(2, model__attention__heads=2)
    record = records.read(path)
    for status, named, n in (("failed", "heads=2", "2 of 3"), ("diverged", "heads=1", "3")):
        files.write(path, records.dumps(record.model_copy(update={"status": status, "scores": []})))
        table = board(tmp_path)
        (row,) = table.blocks[0].rows
        assert (row.numbers["arm"], row.cells["n"]) == (named, n)
        assert any("heads=2 of heads, 1 of 3 runs diverged" in note for note in table.notes) == (status == "diverged")
    record.scores.pop()
    files.write(path, records.dumps(record))
    with pytest.raises(InputError, match="scores: expected test_2017_flickr/bleu, got none"):
        board(tmp_path)
