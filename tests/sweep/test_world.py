"""Text of the world in a sweep, in published results, on the site and in W&B: it is shown as it was written."""

import json
import os
import subprocess
import sys

import pytest
import world_text

from study.store import records

SWEEP = """
name: world
description: हिन्दी & <b>Text</b> of the world, $5 or $10
method: grid
metric: {name: test/bleu}
parameters:
  data.name: {value: files}
  data.source: {value: aa}
  data.target: {value: en}
  data.tokens: {value: words}
  model.width: {value: 8}
  training.steps: {value: 2}
  training.validate_every: {value: 2}
  decoding.beam: {value: 1}
  trainer.device: {value: cpu}
  seed: {value: 1}
  model.attention.score: {values: [dot, additive]}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A checkout of two runs on the text, as their commit left them, and a function that calls a verb there."""
    top = tmp_path_factory.mktemp("world")
    world_text.write(top / "text")
    (top / "sweeps").mkdir()
    (top / "sweeps" / "world.yaml").write_text(SWEEP, encoding="utf-8")
    (top / ".gitignore").write_text("runs/\n")

    def git(*words):
        author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        return subprocess.run(["git", *author, *words], cwd=top, check=True, capture_output=True, text=True).stdout

    def study(*words, status=0, **environment):
        command = [sys.executable, "-P", "-m", "study", *map(str, words)]
        environment = os.environ | {"STUDY_FILES": str(top / "text")} | environment
        done = subprocess.run(command, cwd=top, env=environment, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "the sweep")
    study("sweep", "sweeps/world.yaml", "--slots", "2")
    for path in top.glob("runs/*/record.json"):  # the commit of this checkout stands in for the code's
        record = json.loads(path.read_text("utf-8"))
        record["provenance"] |= {"git_commit": git("rev-parse", "HEAD").strip(), "git_dirty": False}
        path.write_text(records.canonical(record), encoding="utf-8")
    study("publish", "sweeps/world.yaml")
    study("reproduce", "tables", status=1)  # differs from what is committed
    git("add", "-A")
    git("commit", "-qm", "its results")
    return top, study


@pytest.mark.slow
def test_text_of_the_world_is_published_and_scored_again(lab):
    top, study = lab
    assert "those of 2 runs scored again, 0 without references" in study("verify", "--rescore")
    study("reproduce", "tables")
    table = (top / "results" / "tables" / "world.md").read_text("utf-8")
    assert r"हिन्दी & \<b>Text\</b> of the world, $5 or $10" in table


def test_a_page_shows_the_text_as_it_was_written(lab, browser, tmp_path):
    _, study = lab
    study("site", "--out", tmp_path / "site")
    page = browser.new_page()
    failures = []
    page.on("pageerror", lambda error: failures.append(error))
    page.goto((tmp_path / "site" / "index.html").as_uri() + "#/sentences")
    page.get_by_text("It costs $5 or $10 now.").first.wait_for()
    shown = page.locator("#sentences").text_content()
    assert not failures
    for source, _ in world_text.PAIRS:
        assert " ".join(source.split()) in " ".join(shown.split()), source


def test_wandb_gets_the_text_as_it_was_written(lab, server, tmp_path):
    _, study = lab
    study("wandb", "push", "results", WANDB_MODE="online", HOME=str(tmp_path), **server.environment())
    assert len(server.runs) == 2
    assert len(server.tables) == 2
    for table in server.tables:
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
        assert [(row["source"], row["reference"]) for row in rows] == world_text.PAIRS
