"""W&B for real, offline: the run that a later `wandb sync` sends."""

from pathlib import Path

import pytest

from study.config import experiment_from, experiment_id
from study.training import tracking


def test_mode_is_the_environments_else_a_key_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert tracking.mode() == "disabled"
    monkeypatch.delenv("WANDB_MODE")
    assert tracking.mode() == "offline"
    (tmp_path / "netrc").write_text("machine api.wandb.ai login user password 0123456789\n")
    assert tracking.mode() == "online"
    (tmp_path / "netrc").write_text("machine elsewhere.example login user password 0123456789\n")
    assert tracking.mode() == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert tracking.mode() == "online"


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
    assert set(run.run.tags) == {"own", "sweep-tag", experiment_id(experiment)}
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
