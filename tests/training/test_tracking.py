"""W&B for real, offline: the run that a later `wandb sync` sends, and the parts that it is made of."""

import json
import re
from pathlib import Path

import pytest
from tiny_sweep import GRAPH

from study.config import experiment_from, experiment_id, recorded
from study.errors import INSTALL
from study.folders import CHECKOUT
from study.store.folder import Store
from study.store.records import Wandb
from study.sweep.spec import load
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


BASE = "grammar · recurrent · "


@pytest.mark.parametrize("letters", ["", "ä", "中"])
def test_long_names_are_cut_between_words_and_stay_apart(letters):
    """Two arms that begin alike have a name, a group and a short name of their own."""
    arm = " · ".join(f"{letters}number {number}" for number in range(30))
    place = view.Place(sweep=("many",), arm=arm)
    labels = [view.label(f"grammar-recurrent-dot-{mark}-s1", {"seed": 1}, place) for mark in ("00000000", "11111111")]
    for name in ("name", "group"):
        texts = [label[name] for label in labels]
        assert texts[0] != texts[1]
        assert max(map(len, texts)) <= 128
    name, group = labels[0]["name"], labels[0]["group"]
    assert name.endswith("… · 00000000 · seed 1")
    for text, before in ((name, arm), (group, f"many: {arm}")):
        kept = text.partition("…")[0]
        assert len(kept) > 80
        assert before.startswith(kept)
        assert re.fullmatch(r"\W.*", before[len(kept) :]), "a whole word"
    slug = labels[0]["config"]["arm_id"]
    assert re.fullmatch(rf"({letters}number-\d+-)+({letters}number-)?00000000", slug)
    assert len(slug) <= view.SLUG + 9
    assert view.fitted("x" * 200, 128) == "x" * 127 + "…"


def test_the_quickstarts_arms_have_names_of_their_own_without_a_sweep():
    """`study train` alone names all that is changed, the model first."""
    spec = load(CHECKOUT / "sweeps" / "quickstart.yaml")
    labels = [view.label(cell.id, recorded(cell.experiment), view.Place()) for cell in spec.cells]
    assert len({label["name"] for label in labels}) == len(spec.cells)
    assert len({label["config"]["arm_id"] for label in labels}) == len(spec.cells) / len(spec.seeds)
    for label in labels:
        assert label["name"].startswith(BASE[:10])
        assert len(label["name"]) <= 128


def test_what_the_user_gives_is_cut_to_the_limits_of_wandb(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_NAME", "my name " * 30)
    monkeypatch.setenv("WANDB_RUN_GROUP", "my group " * 30)
    label = tracker.Tracker(experiment_from({}), tmp_path).label
    assert (label["name"], label["group"]) == ("my name " * 15 + "my name…", ("my group " * 14).rstrip() + "…")
    monkeypatch.setenv("WANDB_SWEEP_ID", "with-several-runs")
    assert tracker.Tracker(experiment_from({}), tmp_path).label["name"] == f"{BASE}seed 1"


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
