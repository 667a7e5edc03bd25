"""The W&B workspace, built without an account: all that it names is what runs log."""

import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("wandb_workspaces", reason="wandb-workspaces is not installed (it comes with the extra `wandb`)")

from study import metrics
from study.config import Grammar, experiment_from
from study.sweep.spec import load
from study.training import tracking
from study.training.run import run

SWEEPS = Path(__file__).parents[2] / "sweeps"


@pytest.fixture(scope="module")
def module() -> Any:
    found = importlib.util.spec_from_file_location("dashboard", SWEEPS / "dashboard.py")
    assert found is not None
    module = importlib.util.module_from_spec(found)
    assert found.loader is not None
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def workspace(module: Any) -> Any:
    return module.workspace("somebody", SWEEPS, "attention-ablation")


def test_every_key_that_the_workspace_names_is_logged(
    workspace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: set[str] = {"Step"}
    monkeypatch.setattr(tracking.Run, "log", lambda self, values, step, shown=None: logged.update(values))
    small = {"data.train_pairs": 200, "data.test_pairs": 8, "model.width": 16, "training.batch_tokens": 300}
    few = {"training.steps": 2, "decoding.beam": 1, "trainer.device": "cpu", "trainer.threads": 1}
    record = run(experiment_from(small, few), tmp_path, lambda line: None)
    sections = workspace.sections
    plots = [panel for section in sections[:2] for panel in section.panels]
    assert {name for plot in plots for name in (plot.x, *plot.y)} <= logged
    assert tracking.summary(record).keys() <= set(metrics.names(Grammar()))
    paths = sorted(SWEEPS.glob("*.yaml"))
    assert len(sections) == 2 + len(paths)
    for section, path in zip(sections[2:], paths, strict=True):
        spec = load(path)
        runs = [cell.experiment for cell in spec.runnable if cell.experiment]
        config = pd.json_normalize([experiment.model_dump(mode="json") for experiment in runs])
        assert section.name.startswith(f"{spec.name}: ")
        assert section.panels, f"{path} varies nothing that a config has"
        for bars in section.panels:
            assert len(config[bars.groupby.name].astype(str).unique()) > 1, bars.groupby.name
            assert all(bars.metrics[0].name in metrics.names(experiment.data) for experiment in runs)


def test_it_is_what_the_server_takes(workspace: Any) -> None:
    """The package's own model of a view, with the key of a nested field as the server has it."""
    view = workspace._to_model().model_dump(by_alias=True)
    text = str(view)
    assert view["entity"] == "somebody"
    assert "model.value.attention.cross.scale" in text
    assert "test/exact" in text


def test_its_command_line_lists_saves_and_updates(
    module: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0
    assert module.main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert "--update URL" in printed
    assert "quickstart: " in printed
    with pytest.raises(SystemExit) as ended:
        module.main(["somebody"])
    assert ended.value.code == 2
    assert "account: expected a key for W&B, got none." in capsys.readouterr().err.splitlines()[-1]
    monkeypatch.setattr(module.tracking, "mode", lambda: "online")
    saved: list[Any] = []
    workspaces = module.ws.Workspace
    monkeypatch.setattr(workspaces, "save", lambda self: saved.append(self))
    monkeypatch.setattr(workspaces, "url", "https://saved.example")
    old = workspaces(entity="a", project="attention-ablation", name="old", sections=[])
    monkeypatch.setattr(workspaces, "from_url", lambda url: old)
    assert module.main(["somebody"]) == 0
    assert (saved[0].entity, saved[0].project) == ("somebody", "attention-ablation"), "where runs are"
    assert module.main(["--update", "https://saved.example"]) == 0
    assert saved[1] is old
    assert len(old.sections) == len(saved[0].sections)
