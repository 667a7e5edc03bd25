"""W&B for real, offline: the run that a later `wandb sync` sends, and the parts that it is made of."""

import json
from pathlib import Path
from typing import Any

import pytest

from study.config import experiment_from, experiment_id
from study.errors import INSTALL
from study.store import Store
from study.tracking import run as tracking
from study.tracking import view
from study.training.run import run as train


def test_an_offline_run_keeps_the_agents_contract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    experiment = experiment_from({"tracking.tags": ("own",), "model.attention.scale": "none"})
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_TAGS", "sweep-tag")
    monkeypatch.setenv("WANDB_RUN_ID", "chosen-by-the-sweep")
    monkeypatch.setenv("WANDB_RUN_GROUP", "the-group")
    run = tracking.Run(experiment, tmp_path)
    assert run.run is not None
    assert run.run.id == "chosen-by-the-sweep"
    assert run.run.name == "grammar · recurrent · unscaled · seed 1"
    assert run.run.group == "the-group"
    assert run.run.tags is not None
    assert set(run.run.tags) == {"own", "sweep-tag"}, "no tag of one run alone"
    assert run.run.config["experiment_id"] == experiment_id(experiment)
    assert run.run.config["model.attention.cross.scale"] == "none"
    shown = {"source": ["Hund"], "target": ["dog"], "weights": [[1.0]], "gold": None, "text": {"source": "Hund"}}
    shown |= {"site": "cross", "layer": 0, "head": None}
    run.log({"valid/greedy_bleu": 12.5, "attention/aer": 0.25}, step=3, shown=shown)
    told = "cross, layer 0, mean over heads · AER on validation 0.25 · Hund"
    assert tracking.caption(view.Map(shown, 0.25)) == told
    run.log({"valid/greedy_bleu": 13.5}, step=4, shown={**shown, "weights": "no numbers"})
    assert run.run.summary["valid/greedy_bleu"], "a map that cannot be drawn is left out, and no more"
    facts = run.facts()
    assert facts is not None
    assert facts.url is None
    run.finish(None)
    assert len(list(tmp_path.rglob("map_*.png"))) == 1
    assert json.loads((tmp_path / view.MAPS).read_text().splitlines()[0]) == {"step": 3, **shown}
    files = list((tmp_path / "wandb").glob("offline-run-*/run-chosen-by-the-sweep.wandb"))
    assert len(files) == 1
    assert files[0].stat().st_size > 0


def test_disabled_or_not_installed_wandb_is_not_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines: list[str] = []
    monkeypatch.setattr(tracking.Run, "_start", lambda self: pytest.fail("W&B was asked"))
    for mode, installed, expected in (
        ("disabled", True, []),
        (None, False, []),
        ("offline", False, ["W&B: not installed, so the run is not tracked. " + INSTALL.format("wandb")]),
    ):
        monkeypatch.delenv("WANDB_MODE", raising=False)
        if mode:
            monkeypatch.setenv("WANDB_MODE", mode)
        monkeypatch.setattr(tracking, "installed", lambda found=installed: found)
        lines.clear()
        run = tracking.Run(experiment_from({}), tmp_path, lines.append)
        run.log({"value": 1.0}, step=1)
        run.finish(None)
        assert (lines, run.facts()) == (expected, None)


def test_every_validation_is_told_by_section_and_heads_as_one_table_a_site(tmp_path: Path) -> None:
    model = {"model.family": "transformer", "model.layers": 2, "model.attention.heads": 2, "model.width": 16}
    data = {"data.name": "graph", "data.train_pairs": 60, "data.test_pairs": 4, "decoding.beam": 1}
    recipe = {"training.steps": 4, "training.validate_every": 2, "training.batch_tokens": 300}
    record = train(
        experiment_from(model, data, recipe, {"trainer.threads": 1, "trainer.device": "cpu"}),
        tmp_path / "run",
        lambda line: None,
    )
    read = tracking.reader(tmp_path / "run")
    history = [json.loads(line) for line in (read("history.jsonl") or b"").splitlines()]
    shown = view.view_of(record, view.Place(), read)
    points: dict[int, dict[str, Any]] = dict(shown.points)
    assert list(points) == [1, 2, 4]
    assert points[1].keys() == {"train/loss", "train/lr", "train/gradient_norm"}, "no speed of a first step"
    assert {name.partition("/")[0] for point in points.values() for name in point} == {"train", "valid", "attention"}
    step, end = shown.end
    assert (step, end.pop("step")) == (5, 4)
    maps = {f"attention/heads_{site}" for site in ("encoder_self", "decoder_self", "cross")}
    assert end.keys() == {"attention/heads", *maps, "test/map", "test/subsets", "test/translations"}
    table = end["attention/heads"]
    every = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    for site in ("encoder_self", "decoder_self", "cross"):
        rows = [row for row in every if row["site"] == site]
        assert [(row["step"], row["layer"], row["head"]) for row in rows] == [
            (step, layer, head) for step in (2, 4) for layer in range(2) for head in range(2)
        ]
        for point in history:
            heads = [row["entropy"] for row in rows if row["step"] == point["step"]]
            assert heads == [value for layer in point["heads"][site] for value in layer["entropy"]]
            assert points[point["step"]][f"attention/{site}/entropy"] == pytest.approx(sum(heads) / 4, rel=1e-3)
        heat = end[f"attention/heads_{site}"]
        assert (heat.title, heat.rows[-1]) == (f"{site.replace('_', ' ')}, step 4", "layer 1, head 1")
        assert [row[heat.columns.index("entropy")] for row in heat.values] == [row["entropy"] for row in rows[4:]]
        assert tracking.heat_map(heat).min() < 100, "a large weight is dark"
        assert rows[-1]["state_variance"] == history[-1]["heads"][site][1]["state_variance"] > 0
    assert {row["gold_mass"] for row in every if row["site"] == "decoder_self"} == {None}, "it means nothing there"
    for point in history:
        assert points[point["step"]]["valid/loss"] == point["valid_loss"]
        assert points[point["step"]]["attention/aer"] == point["valid_aer"] is not None
        assert points[point["step"]]["attention/gradients/norm"] > 0
    translated = end["test/translations"]
    assert translated.columns == ("split", "sentence", "source", "reference", "hypothesis", "exact", "map")
    hypotheses = (read("test.hyp.txt") or b"").decode().splitlines()
    assert [row[4] for row in translated.rows] == hypotheses
    assert 100 * sum(row[5] for row in translated.rows) / len(hypotheses) == record.score("test", "exact")
    section = experiment_from(data).data
    assert record.data is not None
    assert [pair.source for pair in section.pairs_of("test", record.data.files) or ()] == [
        r[2] for r in translated.rows
    ]
    assert section.pairs_of("test", {"test": "0" * 64}) is None, "a generator that has changed makes other sentences"
    assert [row[6] for row in translated.rows if row[6]] == [end["test/map"]]
    published = Store(Path(__file__).parents[2] / "results")
    name = next(name for name in published.ids() if name.startswith("one_space-"))  # its targets have one word
    table = view.media(published.record(name), lambda file: published.content(name, file))["test/translations"]
    assert {row[3] == row[4] for row in table.rows} == {row[5] for row in table.rows} == {True, False}
    assert shown.summary["tested_step"] == record.selection.step
    tested = next(point for point in record.history if point["step"] == record.selection.step)
    assert shown.summary["attention/cross/entropy"] == tested["diagnostics"]["cross"]["entropy"]
    assert shown.summary["test/aer"] == record.score("test", "aer")
    assert shown.summary["cost/parameters"] == record.model.parameters
    assert shown.files().keys() == {*view.KEPT, "test.hyp.txt", "valid.hyp.txt"}
    last = record.diagnostics["cross"][1]["entropy"]
    assert last == history[-1]["heads"]["cross"][1]["entropy"]
    assert all("heads" not in point for point in record.history), "a record stays small"
