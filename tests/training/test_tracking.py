"""W&B for real, offline: the run that a later `wandb sync` sends."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from study.config import experiment_from, experiment_id
from study.training import tracking
from study.training.run import run as train


def test_an_offline_run_keeps_the_agents_contract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    experiment = experiment_from({"tracking.tags": ("own",)})
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_TAGS", "sweep-tag")
    monkeypatch.setenv("WANDB_RUN_ID", "chosen-by-the-sweep")
    monkeypatch.setenv("WANDB_RUN_GROUP", "the-group")
    run = tracking.Run(experiment, tmp_path)
    assert run.run.id == "chosen-by-the-sweep"
    assert run.run.name == experiment_id(experiment)
    assert run.run.group == "the-group"
    assert set(run.run.tags) == {"own", "sweep-tag", "grammar", "recurrent"}, "no tag of one run alone"
    assert run.run.config["experiment_id"] == experiment_id(experiment)
    assert run.run.config["model"]["attention"]["cross"]["scale"] == "rsqrt"
    shown = {"source": ["Hund"], "target": ["dog"], "weights": [[1.0]], "gold": None, "text": {"source": "Hund"}}
    run.log({"valid_bleu": 12.5}, step=3, shown=shown)
    assert run.facts().url is None
    run.finish(None)
    assert len(list(tmp_path.rglob("attention_*.png"))) == 1
    files = list((tmp_path / "wandb").glob("offline-run-*/run-chosen-by-the-sweep.wandb"))
    assert len(files) == 1
    assert files[0].stat().st_size > 0


def test_every_validation_tells_each_head_to_wandb_and_to_the_history(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logged: dict[int, dict[str, Any]] = {}

    def log(values: dict[str, Any], step: int) -> None:
        logged.setdefault(step, {}).update(values)

    stub = SimpleNamespace(id="stub", dir=tmp_path, summary={}, finish=lambda exit_code: None, log=log)
    stub.define_metric = lambda name, step_metric, summary=None: None
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setattr("wandb.init", lambda **_: stub)
    model = {"model.family": "transformer", "model.layers": 2, "model.attention.heads": 2, "model.width": 16}
    data = {"data.name": "graph", "data.train_pairs": 60, "data.test_pairs": 4, "decoding.beam": 1}
    recipe = {"training.steps": 4, "training.validate_every": 2, "training.batch_tokens": 300}
    record = train(
        experiment_from(model, data, recipe, {"trainer.threads": 1, "trainer.device": "cpu"}),
        tmp_path,
        lambda line: None,
    )
    points = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [point["step"] for point in points] == [2, 4]
    assert list(logged) == [1, 2, 4]
    lines = [json.loads(line) for line in (tmp_path / "training.jsonl").read_text().splitlines()]
    assert lines == [{"step": 1, **logged[1]}]
    assert logged[1].keys() == {"step", "train/loss", "train/lr", "train/gradient_norm"}, "no speed of a first step"
    for point in points:
        told = logged[point["step"]]
        for site in ("encoder_self", "decoder_self", "cross"):
            heads = [told[f"{site}/{layer}/{head}/entropy"] for layer in range(2) for head in range(2)]
            assert heads == [value for layer in point["heads"][site] for value in layer["entropy"]]
            assert told[f"{site}/entropy"] == pytest.approx(sum(heads) / 4, rel=1e-3)
            assert told[f"{site}/1/state_variance"] == point["heads"][site][1]["state_variance"] > 0
        assert told["valid_loss"] == pytest.approx(point["valid_loss"], rel=1e-4)
        assert "decoder_self/0/0/gold_mass" not in told, "what means nothing is left out"
        assert told["gradients/norm"] > 0
    assert points[0]["heads"] != points[1]["heads"]
    last = record.diagnostics["cross"][1]["entropy"]
    assert last == points[-1]["heads"]["cross"][1]["entropy"]
    assert all("heads" not in point for point in record.history), "a record stays small"
