"""`study wandb push`: records become runs of W&B, each once, whatever happened before."""

import copy
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
import wandb
from loopback import ENTITY
from tiny_sweep import GRAPH as SMALL

from study.__main__ import main
from study.commands import wandb as verb
from study.config import experiment_from, experiment_id
from study.engine import places
from study.store import tables
from study.store.folder import Store
from study.store.manifest import write_manifest
from study.sweep.spec import load
from study.tracking import push, tracker
from study.training.run import run as train

ROOT = Path(__file__).parents[2]
OF_TRAINING = re.compile(r"(torch|pytorch_lightning|sentencepiece|study\.(attention|models|training|pruning))(\.|$)")
"""Modules that only training needs."""


@pytest.fixture
def server(server, tmp_path, monkeypatch):
    """The same, and an account there."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))  # `wandb` leaves a folder there
    wandb.teardown()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    yield server
    wandb.teardown()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with published results, the first run of two arms of the quickstart, and two sweep files."""
    top = tmp_path_factory.mktemp("made")
    (top / "sweeps").mkdir()
    for name in ("quickstart.yaml", "copy_far.yaml"):
        shutil.copy(ROOT / "sweeps" / name, top / "sweeps")
    published, few = Store(ROOT / "results"), []
    for identity in (cell.id for cell in load(ROOT / "sweeps" / "quickstart.yaml").cells[:2]):
        tree = published.tree(identity)
        names = {"attention.json", *(score["hypotheses"] for score in tree["scores"])} - {None}
        few.append(tables.NewRun(tree, {name: published.content(identity, name) for name in names}))
    tables.add(top / "results", few, {})
    write_manifest(top / "results")
    return top


@pytest.fixture
def results(made, monkeypatch):
    """The published results, in the working directory."""
    monkeypatch.chdir(made)
    return made / "results"


def test_published_runs_are_sent_once_with_their_place_in_the_sweeps(server, results, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_RUN_ID", "of-another-run")
    monkeypatch.setenv("WANDB_SWEEP_ID", "unknown")
    assert main(["wandb", "push", str(results)]) == 0
    store, lines = Store(results), capsys.readouterr().out.splitlines()
    assert lines[0] == f"W&B: 2 runs for the project {ENTITY}/attention-ablation"
    assert [line.split()[:3] for line in lines[1:3]] == [[f"{n}/2", "sent", i] for n, i in enumerate(store.ids(), 1)]
    assert lines[3:] == ["2 sent"]
    assert sorted(server.runs) == store.ids()
    assert main(["wandb", "push", "quickstart/2"]) == 0  # one published run, by its name
    assert capsys.readouterr().out.splitlines()[-1] == "1 complete"
    spec = load(ROOT / "sweeps" / "quickstart.yaml")
    for number, cell in enumerate(spec.cells[:2]):
        run, record = server.runs[cell.id], store.record(cell.id)
        scale, slug = (("1/√d", "recurrent-key-width-16-1-sqrtd"), ("unscaled", "recurrent-key-width-16-unscaled"))[
            number
        ]
        assert run["displayName"] == f"recurrent · key width 16 · {scale} · seed 1"
        assert run["groupName"] == f"quickstart: recurrent · key width 16 · {scale}"
        assert (run["jobType"], run["tags"], run["state"]) == ("train", ["quickstart", *spec.tags], "finished")
        config = {name: field["value"] for name, field in run["config"].items() if name != "_wandb"}
        assert config["model"]["attention"]["cross"]["scale"] == record.config["model"]["attention"]["cross"]["scale"]
        assert config["arm_id"] == f"{slug}-{cell.id.split('-')[-2]}"
        made = experiment_from(json.loads(shlex.split(config["command"])[-1]))
        assert experiment_id(made) == cell.id, "the command makes the run"
        assert (config["sweep"], config["question"]) == (["quickstart"], spec.description)
        assert (config["facet"], config["arm"]) == ("recurrent", f"key width 16 · {scale}")
        assert (config["baseline"], config["seed"]) == (number == 0, 1)
        *points, end = run["points"]
        curve = [point for point in points if "valid/loss" in point]
        assert [point["step"] for point in curve] == [200, 400, 600, 800]
        began = datetime.fromisoformat(record.provenance.started_utc).timestamp()
        assert end["_timestamp"] == pytest.approx(began + record.resources.wall_seconds, abs=1)
        assert curve[1]["_timestamp"] == pytest.approx(began + record.resources.wall_seconds / 2, abs=1)
        assert run["summary"]["test/exact"] == record.score("test", "exact")
        assert (end["_step"], end["test/map"]["_type"], end["test/translations"]["nrows"]) == (
            801,
            "image-file",
            4 * 200,
        )

    before, calls = copy.deepcopy(server.runs), len(server.calls)
    with monkeypatch.context() as here:
        for name in filter(OF_TRAINING.match, [*sys.modules]):
            here.setitem(sys.modules, name, None)  # an import of it is an error
        assert main(["wandb", "push", str(results), "--sweep", "quickstart"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 complete"
    assert server.runs == before
    assert {name for name, _ in server.calls[calls:]} <= {"Viewer", "Runs"}, "nothing is written"
    gone = spec.cells[0].id
    del server.runs[gone]
    server.deleted.add(gone)
    monkeypatch.setattr(push, "PATIENCE", 1.0)
    assert main(["wandb", "push", str(results)]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == "1 complete, 1 failed"
    assert "HTTP 409" in printed.err


@pytest.fixture
def alone(server, tmp_path):
    """Function that calls `study wandb` as a user does: a process of its own, an empty folder, no torch."""
    here, lacking = tmp_path / "empty", tmp_path / "lacking"
    for path in (here, lacking):
        path.mkdir()
    (lacking / "torch.py").write_text("raise ImportError('there is no torch')\n")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    environment = inherited | server.environment() | {"HOME": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(lacking), str(ROOT)])

    def call(*words):
        command = [sys.executable, "-P", "-m", "study", "wandb", *map(str, words)]
        return subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=300)

    return call


def test_a_push_in_a_process_of_its_own_sends_all_runs(server, made, alone, tmp_path):
    """Published runs, and one of the user's whose tokens look like formulas and whose second map cannot be drawn.

    Nothing in this process has imported torch or pyplot. A picture that fails costs neither its run nor the others.
    """
    ran = alone("push", made / "results")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "2 sent"
    published = Store(made / "results")
    identity = published.ids()[0]
    own = tmp_path / "own" / "runs" / identity
    own.mkdir(parents=True)
    (own / "record.json").write_text(published.text(identity))
    shown = published.attention(identity)
    shown["source"][:2] = ["$$", "\\frac{"]
    shown["text"] = {"source": "$5 or $10^", "target": "$"}
    (own / "attention.json").write_text(json.dumps(shown))
    (own / "test.hyp.txt").write_bytes(published.content(identity, "test.hyp.txt"))
    maps = [{"step": 200, **shown}, {"step": 400, **shown, "weights": [["none"]]}]
    (own / "maps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in maps))
    server.runs.clear()
    ran = alone("push", own.parent)
    assert ran.returncode == 0, ran.stderr
    assert "W&B: no attention/map at step 400: " in ran.stderr
    (run,) = server.runs.values()
    assert run["state"] == "finished"
    drawn = [point["_step"] for point in run["points"] if "attention/map" in point]
    assert drawn == [200], "the map of step 400 is left out, its numbers are not"
    assert [point["_step"] for point in run["points"] if "valid/loss" in point] == [200, 400, 600, 800]
    end = run["points"][-1]
    assert (end["test/map"]["_type"], end["test/translations"]["_type"]) == ("image-file", "table-file")


def test_runs_that_were_deleted_do_not_end_a_push(server, results, monkeypatch, capsys):
    """W&B refuses each by its own: that says nothing on the runs that follow."""
    gone, other = Store(results).ids()
    server.deleted.add(gone)
    monkeypatch.setattr(push, "PATIENCE", 1.0)
    monkeypatch.setattr(verb, "HOPELESS", 1)
    assert main(["wandb", "push", str(results)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 sent, 1 failed"
    assert server.runs[other]["state"] == "finished"


def test_an_interrupted_push_continues_and_a_server_that_dies_ends_it(server, results, monkeypatch, capsys, printed):
    log, calls = tracker.log, []

    def interrupted(run, shown, first):
        calls.append(run)
        if len(calls) == 1:
            return log(run, shown, first)
        log(run, list(shown)[:3], first)
        raise KeyboardInterrupt

    with monkeypatch.context() as here:
        here.setattr(tracker, "log", interrupted)
        assert main(["wandb", "push", str(results)]) == 130
    assert "interrupted: 1 of 2 runs done; the same command again continues" in capsys.readouterr().out
    assert [run["state"] for run in server.runs.values()] == ["finished", "failed"]
    assert printed("wandb", "push", results).splitlines()[-1] == "1 updated, 1 complete"
    assert len(server.runs) == 2
    for run in server.runs.values():
        assert run["state"] == "finished"
        steps = [point["_step"] for point in run["points"]]
        assert steps == sorted({*steps})
        assert {200, 400, 600, 800, 801} <= {*steps}

    server.runs.clear()
    monkeypatch.setattr(push, "PATIENCE", 1.0)
    monkeypatch.setattr(tracker, "END", 1.0)
    monkeypatch.setattr(verb, "HOPELESS", 1)
    send = push.Project.send
    monkeypatch.setattr(push.Project, "send", lambda *told: (server.dead or server.die(), send(*told))[1])
    assert main(["wandb", "push", str(results)]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines()[-1] == "1 failed"
    assert "1 runs in a row failed" in told.err


def sent(run):
    """All that W&B shows of a run; files by their content."""
    plain = {name: run[name] for name in ("displayName", "groupName", "jobType", "state", "project")}
    config = {name: field["value"] for name, field in run["config"].items() if name != "_wandb"}
    return {**plain, "tags": run["tags"] or [], "config": config, "summary": _plain(run["summary"])}


def _plain(values):
    """Logged values, without those that W&B adds; files by their content."""
    own = {name: value for name, value in values.items() if not name.startswith("_") and name != push.PUSHED}
    return {
        name: (value["_type"], value["sha256"]) if isinstance(value, dict) and "_type" in value else value
        for name, value in own.items()
    }


def test_a_live_run_an_offline_one_a_lost_one_and_pushed_ones_are_the_same(
    server, client, tmp_path, monkeypatch, printed
):
    """Field by field. The second is sent by `wandb sync`; the third loses W&B before its end."""
    runs, file = tmp_path / "runs", tmp_path / "sweeps" / "tiny.yaml"
    fields = "".join(f"  {name}: {{value: {value}}}\n" for name, value in SMALL.items())
    file.parent.mkdir()
    file.write_text(
        "# tags: smoke\nname: tiny\ndescription: Which score?\nmethod: grid\nmetric: {name: test/exact}\nparameters:\n"
        f"  seed: {{values: [1, 2]}}\n  model.attention.score: {{values: [dot, additive]}}\n{fields}"
    )
    spec = load(file)
    places.write(spec, runs)
    live, offline, lost = spec.cells[:3]
    train(live.experiment, runs / live.id, lambda line: None)
    with monkeypatch.context() as here:
        here.setenv("WANDB_MODE", "offline")
        train(offline.experiment, runs / offline.id, lambda line: None)
    with monkeypatch.context() as here:
        here.setattr(tracker, "end", lambda run, view, first, code: run.finish())
        train(lost.experiment, runs / lost.id, lambda line: None)
    client(server, "sync", *(runs / offline.id / "wandb").glob("offline-run-*"))
    assert "test/exact" not in server.runs[lost.id]["summary"]
    before, artifacts = copy.deepcopy(server.runs), copy.deepcopy(server.artifacts)
    first = before[live.id]
    assert (first["displayName"], first["tags"]) == ("dot · seed 1", ["tiny", "smoke"])
    assert first["config"]["question"]["value"] == "Which score?"
    assert {one["type"] for versions in artifacts.values() for one in versions} == {"run", "run_table"}
    assert {"record.json", "model.pt", "test.hyp.txt", "maps.jsonl"} <= artifacts[live.id][0]["files"].keys()

    assert printed("wandb", "push", runs).splitlines()[-1] == "1 updated, 2 complete"
    for cell in (live, offline, lost):
        assert [point["_step"] for point in server.runs[cell.id]["points"]] == [1, 2, 4, 5], "no point twice"
        assert server.runs[cell.id]["state"] == "finished"
        assert "test/exact" in server.runs[cell.id]["summary"]
    server.runs.clear()
    assert main(["wandb", "push", str(runs)]) == 0
    for cell in (live, offline):
        pushed = server.runs[cell.id]
        assert sent(pushed) == sent(before[cell.id])
        assert [_plain(point) for point in pushed["points"]] == [_plain(point) for point in before[cell.id]["points"]]
        assert server.artifacts[cell.id] == artifacts[cell.id], "the files are there once"
    assert len([path for path, _ in server.uploads if path.startswith(f"/artifact/{live.id}") and "model" in path]) == 1


def test_a_sweep_without_records_is_one_line(server, results, refused):
    assert "expected records, got none of that sweep." in refused("wandb", "push", results, "--sweep", "copy_far")
    assert not server.runs
