"""W&B for real, offline: the run that a later `wandb sync` sends, and the parts that it is made of."""

import json
from pathlib import Path

import pytest
from tiny_sweep import GRAPH

from study.config import experiment_from, experiment_id
from study.errors import INSTALL
from study.records import Wandb
from study.store import Store
from study.tracking import tracker, view
from study.training.run import run as train


def test_an_offline_run_keeps_the_agents_contract(monkeypatch, tmp_path):
    experiment = experiment_from({"tracking.tags": ("own",), "model.attention.scale": "none"})
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_TAGS", "sweep-tag")
    monkeypatch.setenv("WANDB_RUN_ID", "chosen-by-the-sweep")
    monkeypatch.setenv("WANDB_RUN_GROUP", "the-group")
    run = tracker.Tracker(experiment, tmp_path)
    label = run.label
    assert (label["name"], label["group"]) == ("grammar · recurrent · unscaled · seed 1", "the-group")
    assert set(label["tags"]) == {"own", "sweep-tag"}, "no tag of one run alone"
    assert label["config"]["experiment_id"] == experiment_id(experiment)
    assert label["config"]["model"]["attention"]["cross"]["scale"] == "none"
    assert label["config"]["arm_id"].startswith("grammar-recurrent-unscaled-")
    assert run.facts() == Wandb(id="chosen-by-the-sweep", url=None)
    run.send({})
    run.finish(None)
    assert not (tmp_path / "wandb").exists(), "an offline run is written when it has finished"


def test_disabled_or_not_installed_wandb_is_not_imported(monkeypatch, tmp_path):
    lines = []
    monkeypatch.setattr(tracker, "begin", lambda *_: pytest.fail("W&B was asked"))
    for mode, installed, expected in (
        ("disabled", True, []),
        (None, False, []),
        ("offline", False, ["W&B: not installed, so the run is not tracked. " + INSTALL.format("wandb")]),
    ):
        monkeypatch.delenv("WANDB_MODE", raising=False)
        if mode:
            monkeypatch.setenv("WANDB_MODE", mode)
        monkeypatch.setattr(tracker, "installed", lambda found=installed: found)
        lines.clear()
        run = tracker.Tracker(experiment_from({}), tmp_path, lines.append)
        run.send({})
        run.finish(None)
        assert (lines, run.facts()) == (expected, None)


@pytest.mark.usefixtures("few_validated")
def test_a_run_is_shown_by_section_with_its_translations(tmp_path):
    experiment = experiment_from(GRAPH, {"model.layers": 2})
    record = train(experiment, tmp_path / "run", lambda line: None)
    shown = view.view_of(Store(tmp_path), "run", view.Place())
    read = shown.read
    history = [json.loads(line) for line in (read("history.jsonl") or b"").splitlines()]
    points = dict(shown.points)
    assert list(points) == [1, 2, 4]
    assert points[1].keys() == {"train/loss", "train/lr", "train/gradient_norm"}, "no speed of a first step"
    assert {name.partition("/")[0] for point in points.values() for name in point} == {"train", "valid", "attention"}
    step, end = shown.end()
    assert (step, end.pop("step")) == (5, 4)
    assert end.keys() == {"test/map", "test/translations"}
    for point in history:
        own = points[point["step"]]
        assert (own["valid/loss"], own["attention/aer"]) == (point["valid_loss"], point["valid_aer"])
        assert own["attention/gradients/norm"] > 0
        assert own["attention/map"]["aer"] == point["valid_aer"] is not None
        for site in ("encoder_self", "decoder_self", "cross"):
            assert own[f"attention/{site}/entropy"] == point["diagnostics"][site]["entropy"]
    translated = end["test/translations"]
    hypotheses = (read("test.hyp.txt") or b"").decode().splitlines()
    assert [row[4] for row in translated] == hypotheses
    assert 100 * sum(row[5] for row in translated) / len(hypotheses) == record.score("test", "exact")
    section = experiment.data
    sources = [pair.source for pair in section.pairs_of("test", record.data.files) or ()]
    assert sources == [row[2] for row in translated]
    assert section.pairs_of("test", {"test": "0" * 64}) is None, "a generator that has changed makes other sentences"
    published = Store(Path(__file__).parents[2] / "results")
    name = next(name for name in published.ids() if name.startswith("one_space-"))  # its targets have one word
    _, last_point = view.view_of(published, name, view.Place()).end()
    table = last_point["test/translations"]
    assert {row[3] == row[4] for row in table} == {row[5] for row in table} == {True, False}
    assert shown.summary["tested_step"] == record.selection.step
    tested = next(point for point in record.history if point["step"] == record.selection.step)
    assert shown.summary["attention/cross/entropy"] == tested["diagnostics"]["cross"]["entropy"]
    assert shown.summary["test/aer"] == record.score("test", "aer")
    assert shown.summary["cost/parameters"] == record.model.parameters
    splits = {f"{split}.{kind}.txt" for split in ("test", "valid") for kind in ("hyp", "nll")}
    assert shown.files().keys() == {*view.KEPT, *splits} - {"log.txt"}
    heads = [value for layer in record.diagnostics["cross"] for value in layer["entropy"]]
    assert history[-1]["diagnostics"]["cross"]["entropy"] == pytest.approx(sum(heads) / 4, rel=1e-3)
