"""Mechanisms that a whole run must know how to carry: what samples resumes exactly, what has a limit keeps to it."""

import json
from pathlib import Path
from typing import Any

import pytest

from study.config import experiment_from
from study.training.run import run

SMALL = {
    "data.train_pairs": 200,
    "data.test_pairs": 60,
    "model.width": 20,
    "training.steps": 12,
    "training.validate_every": 4,
    "training.batch_tokens": 300,
    "decoding.beam": 2,
    "trainer.threads": 1,
    "trainer.device": "cpu",
}


class Stopped(Exception):  # noqa: N818
    """The run ends here."""


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")


def timeless(folder: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((folder / "record.json").read_text())
    del tree["resources"], tree["provenance"]["started_utc"]
    return tree


def test_hard_attention_resumes_exactly(tmp_path: Path) -> None:
    """Its draws are a function of (seed, step), and its baseline is in the checkpoint."""
    experiment = experiment_from(SMALL, {"model.attention.reach": "hard"})
    record = run(experiment, tmp_path / "whole", lambda line: None)
    assert record.status == "finished"
    assert 0 < record.history[-1]["train_loss"] < 10

    def interrupt(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            raise Stopped

    said: list[str] = []
    with pytest.raises(Stopped):
        run(experiment, tmp_path / "broken", interrupt)
    said.clear()
    run(experiment, tmp_path / "broken", said.append)
    assert said[0].startswith("continuing")
    assert timeless(tmp_path / "broken") == timeless(tmp_path / "whole")


def test_learned_positions_leave_longer_splits_without_a_likelihood(tmp_path: Path) -> None:
    overrides = {"model.family": "transformer", "model.layers": 1, "model.positions": "learned"}
    data = {"data.train_pairs": 2000}  # enough that one sentence is as long as the longest of the test
    record = run(experiment_from(SMALL, data, overrides), tmp_path, lambda line: None)
    assert record.status == "finished"
    assert record.score("test", "nll") is not None
    assert record.score("long", "nll") is None
    assert record.score("long", "aer") is None
    assert record.score("long", "bleu") is not None
    assert "" in (tmp_path / "long.hyp.txt").read_text().splitlines()
