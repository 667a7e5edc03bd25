"""A run that is asked to end, wherever it is: it keeps the step it was at, and ends as if nothing had been."""

import json
import signal

import pytest
import torch
from tiny_sweep import GRAPH

from study import processes
from study.__main__ import main
from study.config import experiment_from, experiment_id
from study.engine import lease
from study.errors import BUSY
from study.tracking.tracker import Tracker
from study.training import machine
from study.training.run import run
from study.training.task import Task
from study.training.trainer import Checkpoint

pytestmark = pytest.mark.usefixtures("few_validated")
EXPERIMENT = experiment_from(GRAPH, {"training.steps": 7, "training.validate_every": 3})
CODES = {signal.SIGTERM: SystemExit, signal.SIGINT: KeyboardInterrupt}


def outcome(folder):
    """All that a run leaves, without times."""
    tree = json.loads((folder / "record.json").read_text())
    del tree["resources"], tree["provenance"]["started_utc"]
    texts = {path.name: path.read_bytes() for path in folder.glob("*.hyp.txt")}
    assert len(texts) > 1
    state = {name: tensor.tolist() for name, tensor in torch.load(folder / "model.pt")["state"].items()}
    lines = {name: (folder / name).read_bytes() for name in ("history.jsonl", "maps.jsonl")}
    return {"record": tree, "lines": lines, "texts": texts, "state": state}


def stop(monkeypatch, folder, step, number):
    """Run the experiment with a real signal in a step, or for a negative one in the validation of that step."""
    begin, validate = Task.on_train_batch_start, Task.validation_step

    def in_a_step(task, batch, batch_idx):
        begin(task, batch, batch_idx)
        if task.global_step + 1 == step:
            signal.raise_signal(number)

    def in_a_validation(task, batch, batch_idx):
        if task.global_step == -step:
            signal.raise_signal(number)
        validate(task, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(Task, "on_train_batch_start", in_a_step)
        patch.setattr(Task, "validation_step", in_a_validation)
        with processes.on_request(), pytest.raises(CODES[number]) as ended:
            run(EXPERIMENT, folder, lambda line: None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not (folder / "record.json").exists()
    return ended.value


def test_stopped_everywhere_it_continues_where_it_was_and_changes_no_number(tmp_path, monkeypatch):
    """One call after another, of changed code at first; the last on another processor."""
    run(EXPERIMENT, tmp_path / "whole", lambda line: None)
    undisturbed, folder = outcome(tmp_path / "whole"), tmp_path / "stopped"
    assert [point["step"] for point in undisturbed["record"]["history"]] == [3, 6, 7]
    codes = []
    stop_tracking = Tracker.stop
    monkeypatch.setattr(Tracker, "stop", lambda self, code: (codes.append(code), stop_tracking(self, code)))
    for step, number, kept, code in (
        (1, signal.SIGTERM, 1, ("a" * 40, True)),
        (2, signal.SIGTERM, 2, ("b" * 40, False)),
        (3, signal.SIGINT, 3, ("b" * 40, False)),  # in the step that a validation follows
        (-6, signal.SIGTERM, 6, ("b" * 40, False)),  # in a validation, which is made again
        (-7, signal.SIGTERM, 6, ("b" * 40, False)),  # in the last one
        (7, signal.SIGINT, 7, ("b" * 40, False)),  # the last, which is validated after training
    ):
        monkeypatch.setattr(machine, "_git", lambda code=code: code)
        ended = stop(monkeypatch, folder, step, number)
        assert codes.pop() == getattr(ended, "code", None) == (143 if number == signal.SIGTERM else None)
        state = torch.load(folder / "checkpoint.ckpt", weights_only=True)
        assert state["global_step"] == kept
    assert state["study"]["earlier_seconds"] > state["study"]["train_seconds"]
    state["study"]["earlier_seconds"] = 1000.0
    torch.save(state, folder / "checkpoint.ckpt")
    monkeypatch.setattr(machine, "_cpu", lambda: "another processor")
    said = []
    record = run(EXPERIMENT, folder, said.append)
    assert said[0].startswith("continuing")
    assert 1000 < record.resources.wall_seconds < 1300
    found, made, whole = outcome(folder), record.provenance, undisturbed["record"]["provenance"]
    assert [(call.from_step, call.git_dirty, call.device == whole["device"]) for call in made.calls] == [
        (0, True, True),
        (1, False, True),  # and all that ran alike after it
        (7, False, False),
    ]
    assert (made.git_dirty, made.git_commit, made.deterministic) == (True, "b" * 40, False)
    assert made.of_calls("git_commit") == ["a" * 40, "b" * 40]
    assert (whole["threads"], "calls" in whole) == (1, False)
    found["record"]["provenance"] = whole
    assert found == undisturbed


def test_a_stop_after_the_check_of_a_validation_is_answered_in_the_next_step(monkeypatch, tmp_path):
    """Lightning's own handler would end training there, with status 0."""
    check = Checkpoint.on_validation_end

    def late(checkpoint, trainer, task):
        check(checkpoint, trainer, task)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Checkpoint, "on_validation_end", late)
    with processes.on_request(), pytest.raises(SystemExit) as ended:
        run(EXPERIMENT, tmp_path, lambda line: None)
    assert ended.value.code == 143
    assert torch.load(tmp_path / "checkpoint.ckpt", weights_only=True)["global_step"] == 4


def test_interrupted_at_the_command_line_it_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    """Exit status 130. The second of two signals in one step ends the run inside it, where nothing can be kept."""
    command = ["train", "--runs", str(tmp_path), *(f"--{name}={value}" for name, value in GRAPH.items())]
    for count, said in ((2, "the same command starts again"), (1, "the same command continues from")):

        def interrupted(task, batch, batch_idx, count=count):
            for _ in range(count):
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Task, "on_train_batch_start", interrupted)
        assert main(command) == 130
        (last,) = capsys.readouterr().err.splitlines()
        assert said in last
        assert len(list(tmp_path.glob("*/checkpoint.ckpt"))) == 2 - count
    monkeypatch.undo()
    (folder,) = tmp_path.iterdir()
    with lease.holding(folder):
        assert main(command) == BUSY
    assert "another process runs this now" in capsys.readouterr().err
    assert main(command) == 0
    assert not list(folder.glob("*checkpoint*"))


def test_a_refused_training_leaves_nothing(tmp_path, refused):
    few = ["train", "--runs", str(tmp_path), "--data.name=graph", "--data.train_pairs=60", "--data.test_pairs=4"]
    window = ["--model.attention.reach=local_m", "--model.attention.window=1000"]
    for words, said in (
        (["--training.batch_tokens=1"], "training.batch_tokens: expected at least"),
        (window, "reach local_m would be global"),
    ):
        assert said in refused(*few, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("left", ["beside a record", "before one"])
def test_a_training_by_hand_removes_what_a_killed_one_has_left(left, tmp_path, printed):
    command = ["train", "--runs", str(tmp_path), *(f"--{name}={value}" for name, value in GRAPH.items())]
    folder = tmp_path / experiment_id(experiment_from(GRAPH))
    if left == "beside a record":
        printed(*command)
    folder.mkdir(exist_ok=True)
    for name in (".checkpoint.ckpt.0a1b2c3d.study.tmp", *["checkpoint.ckpt"] * (left == "beside a record")):
        (folder / name).touch()
    printed(*command)
    assert not list(folder.glob("*checkpoint*"))
    assert not list(folder.glob(".*"))
