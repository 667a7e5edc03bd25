"""Output of a sweep in a terminal while it runs: a line that moves, and a table after the first seed."""

import yaml
from terminal import study_in
from tiny_sweep import GRAPH

from study.engine.progress import step_of


def test_a_terminal_shows_steps_and_a_table_after_the_first_seed(tmp_path):
    """Seeds stand last in the file, and yet every arm is trained once before one is trained again."""
    fields = {name: {"value": value} for name, value in GRAPH.items()}
    fields |= {"seed": {"values": [1, 2]}, "model.attention.score": {"values": ["dot", "additive"]}}
    sweep = {"name": "tiny", "description": "two", "method": "grid", "metric": {"name": "test/accuracy"}}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(sweep | {"parameters": fields}))
    status, text = study_in(80, "sweep", "tiny.yaml", "--slots", "1", cwd=tmp_path)
    assert status == 0, text
    assert "0 of 4 done · score=dot seed=1: 0/4" in text
    lines = [line.rpartition("\r")[2] for line in text.split("\n")]
    done = [i for i, line in enumerate(lines) if line.startswith("done ")]
    first = lines.index("seed 1, while the others are trained:")
    assert len(done) == 4
    assert done[1] < first < done[2], "the table stands between the two seeds"
    assert " ".join(lines[done[1] : done[1] + 2]).count("from the baseline") == 1
    assert max(len(line) for line in lines if line.startswith(("start ", "done "))) <= 80


def test_the_last_step_of_a_curve_is_that_of_its_last_whole_line(tmp_path):
    path = tmp_path / "training.jsonl"
    assert step_of(path) == 0
    path.write_text("".join(f'{{"step": {step}, "loss": {1 / step}}}\n' for step in range(20, 4001, 20)))
    assert step_of(path) == 4000
    path.write_text(path.read_text() + '{"step": 40')
    assert step_of(path) == 4000
