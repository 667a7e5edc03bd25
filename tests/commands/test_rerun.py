"""`study rerun` on a run that is trained for the test, interrupted, repeated, and compared with altered records."""

import json
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch
from published_lab import PROVENANCE
from tiny_sweep import GRAPH

from study.__main__ import main
from study.analysis import rerun
from study.config import experiment_from, experiment_id
from study.store import tables
from study.training.run import run
from study.training.task import Task

EXPERIMENT = experiment_from(GRAPH)
ID = experiment_id(EXPERIMENT)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder with a run, and published results with the same run."""
    root = tmp_path_factory.mktemp("checkout")
    run(EXPERIMENT, root / "made" / ID, lambda line: None)
    publish(root)
    return root


def publish(root, change=lambda tree: None, **texts):
    """Publish the run of the folder, its record and files altered."""
    folder = root / "made" / ID
    tree = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    change(tree)
    contents = {path.name: path.read_bytes() for path in [*folder.glob("*.hyp.txt"), folder / "attention.json"]}
    shutil.rmtree(root / "results", ignore_errors=True)
    (root / "results").mkdir()
    tables.add(root / "results", [tables.NewRun(tree, contents | {f"{k}.hyp.txt": v for k, v in texts.items()})], {})


def test_a_rerun_that_was_stopped_goes_on_and_is_equal(checkout, monkeypatch, capsys, printed):
    monkeypatch.chdir(checkout)
    begin = Task.on_train_batch_start

    def stopped(task, batch, batch_idx):
        begin(task, batch, batch_idx)
        if task.global_step + 1 == 3:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Task, "on_train_batch_start", stopped)
        assert main(["rerun", ID]) == 143
    assert not Path("runs", ID, "record.json").exists()
    said = printed("rerun", ID[:-1]).splitlines()
    assert f"{ID}: results/runs: {ID} → runs/{ID}" in said
    assert any(line.startswith("continuing from checkpoint.ckpt") for line in said)
    assert said[-1] == "equal bit for bit"
    assert main(["translate", "last", "a1 b2 c3", "--plot", "map.png"]) == 0  # the rerun has a model
    assert "nothing is trained" in printed("rerun", "last")
    assert main(["rerun", f"made/{ID}", "--runs", "elsewhere"]) == 0  # published, so compared with what is published
    (checkout / "results").rename(checkout / "away")
    own = [f"made/{ID}", "--runs", "runs"]
    assert main(["rerun", *own]) == 0
    states = [torch.load(Path(*folder, ID, "model.pt"))["state"] for folder in (("runs", "rerun"), ("made",))]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    losses = Path("made", ID, "training.jsonl")
    losses.write_text(losses.read_text(encoding="utf-8").replace('"train/loss": ', '"train/loss": 9', 1))
    capsys.readouterr()
    assert main(["rerun", *own]) == 1
    assert "first difference: losses[0] (step 1).train/loss: 9" in capsys.readouterr().out
    (checkout / "away").rename(checkout / "results")


def of_torch(tree):
    tree["history"][1]["valid_loss"] += 0.5
    tree["scores"][0]["value"] = 77.0
    tree["diagnostics"]["cross"][0]["cosine"] = [0.5]  # no longer measured, so no difference
    tree["provenance"]["packages"]["torch"] = "1.0.0"


def of_a_device(tree):
    tree["scores"].append(tree["scores"][0] | {"metric": "gone", "value": 1.0})
    tree["provenance"] |= {"device": "a GPU", "threads": 4}


def of_data(tree):
    tree["data"]["files"]["train"] = "0" * 64


@pytest.mark.parametrize(
    ("change", "texts", "first", "cause"),
    [
        (of_torch, {}, r"history\[1\] \(step 4\).valid_loss: ", r"torch 1\.0\.0 → \d"),
        (of_a_device, {}, r"scores\.\w+/gone: .* before, nothing now", r"device a GPU → .*; threads 4 → 1"),
        (of_data, {}, r"data\.files\.train: 0000", "the data: their SHA-256 differ"),
        (None, {"test": b"one\n"}, r"test\.hyp\.txt, line 1: one before, ", "not known|code that is not"),
    ],
)
def test_a_changed_record_is_named_with_its_cause(checkout, change, texts, first, cause, monkeypatch, capsys):
    monkeypatch.chdir(checkout)
    publish(checkout, change or (lambda tree: None), **texts)
    try:
        assert main(["rerun", ID, "--runs", "made"]) == 1
    finally:
        publish(checkout)
    said = capsys.readouterr().out.splitlines()
    lines = [line for line in said if line.startswith(("first difference: ", "likely cause: "))]
    assert [line.split(": ")[0] for line in lines] == ["first difference", "likely cause"]
    assert re.match(f"first difference: {first}", lines[0]), lines
    assert re.match(f"likely cause: ({cause})", lines[1]), lines
    if change is of_torch:
        assert any(line.startswith("further differences: 1, such as scores.") for line in said)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"instructions": None}, {"instructions": "AVX2"}, "instruction set not recorded → AVX2"),
        ({}, {"git_commit": "b" * 40}, "commit aaaaaaaaaaaa → bbbbbbbbbbbb"),
        ({"deterministic": False}, {}, "operations that are not deterministic"),
        ({"device": "a GPU", "deterministic": False}, {}, "device a GPU → "),
        ({}, {"git_dirty": True}, "code that is not committed"),
    ],
)
def test_the_cause_is_what_the_records_do_not_share(tiny, before, now, expected):
    record = tiny.record(tiny.cells["score=dot", 1], 80.0)
    usual = PROVENANCE.model_copy(update={"git_commit": "a" * 40, "git_dirty": False, "deterministic": True})
    both = [record.model_copy(update={"provenance": usual.model_copy(update=facts)}) for facts in (before, now)]
    assert rerun.cause(*both).startswith(expected)
