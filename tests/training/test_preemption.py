"""A run that is asked to end between two validations: it keeps the step it was at, and ends as if nothing had been."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from study.config import experiment_from
from study.sweep import stopping
from study.training import tracking
from study.training.batches import Batch
from study.training.run import run
from study.training.task import Task

EXPERIMENT = experiment_from(
    {
        "data.train_pairs": 200,
        "data.test_pairs": 20,
        "model.width": 16,
        "training.steps": 7,
        "training.validate_every": 3,
        "training.batch_tokens": 300,
        "decoding.beam": 1,
        "trainer.threads": 1,
        "trainer.device": "cpu",
    }
)


def timeless(folder: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((folder / "record.json").read_text())
    del tree["resources"], tree["provenance"]["started_utc"]
    return tree


def test_asked_to_end_it_continues_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[object] = []
    preempt = tracking.Run.preempt
    monkeypatch.setattr(tracking.Run, "preempt", lambda self, code: (codes.append(code), preempt(self, code)))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(EXPERIMENT, whole, lambda line: None)
    begin = Task.on_train_batch_start

    def interrupted(task: Task, batch: Batch, batch_idx: int) -> None:
        begin(task, batch, batch_idx)
        if task.global_step == 4:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Task, "on_train_batch_start", interrupted)
    with stopping.on_request(), pytest.raises(SystemExit) as ended:
        run(EXPERIMENT, broken, lambda line: None)
    monkeypatch.setattr(Task, "on_train_batch_start", begin)
    assert codes == [ended.value.code] == [128 + signal.SIGTERM]
    kept = torch.load(broken / "checkpoint.ckpt", weights_only=False)
    assert kept["global_step"] == 5
    assert kept["study"]["earlier_seconds"] > kept["study"]["train_seconds"]
    kept["study"]["earlier_seconds"] = 1000.0
    torch.save(kept, broken / "checkpoint.ckpt")
    said: list[str] = []
    resources = run(EXPERIMENT, broken, said.append).resources
    assert said[0].startswith("continuing")
    assert json.loads((broken / "progress.json").read_text())["from"] == 5
    assert resources is not None
    assert 1000 < resources.wall_seconds < 1300
    assert timeless(broken) == timeless(whole)
    assert (broken / "history.jsonl").read_bytes() == (whole / "history.jsonl").read_bytes()
