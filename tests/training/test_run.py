"""One experiment, for real: determinism, resuming after SIGKILL, divergence, and what the record holds."""

import hashlib
import json
import os
import signal

import pytest
import torch
from tiny_sweep import GRAMMAR as SMALL
from tiny_sweep import GRAPH

from study.config import experiment_from, experiment_id
from study.corpora import load
from study.corpora.grammar.morphology import without_pronouns
from study.errors import InputError
from study.scores import scoring
from study.store.folder import Store
from study.training import decode, translation
from study.training.batches import examples
from study.training.run import run

pytestmark = pytest.mark.usefixtures("few_validated")
UNTIL = """
lines = []
def watch(line):
    lines.append(line)
    if len(lines) == given[2]:
        os.kill(os.getpid(), signal.SIGKILL)
run(experiment_from(given[0]), Path(given[1]), watch)
"""
"""A run that kills itself with SIGKILL while its n-th line is being reported."""


def timeless(folder):
    """The record without times and dates, and without the state of the checkout, which may move under the tests."""
    tree = json.loads((folder / "record.json").read_text())
    del tree["resources"]
    for name in ("started_utc", "git_commit", "git_dirty"):
        del tree["provenance"][name]
    return tree


def test_a_job_of_slurm_changes_nothing(monkeypatch, recwarn, tmp_path):
    """Lightning must not take SLURM for its launcher, another program's file for a checkpoint, or advise `srun`."""
    experiment = experiment_from(GRAPH)
    (tmp_path / "srun").write_text("")
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "hpc_ckpt_1.ckpt").write_text("of another program")
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGUSR1)
    run(experiment, tmp_path / "alone", lambda line: None)
    for name, value in {"JOB_ID": 77, "NTASKS": 4, "PROCID": 3, "NTASKS_PER_NODE": 4, "JOB_NAME": "tiny"}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    run(experiment, tmp_path / "job", lambda line: None)
    assert timeless(tmp_path / "job") == timeless(tmp_path / "alone")
    assert signal.getsignal(signal.SIGUSR1) == before  # Lightning's would queue the job again
    assert not [str(one.message) for one in recwarn if "srun" in str(one.message)]


def test_killed_and_resumed_equals_undisturbed(forks, tmp_path):
    """Killed while a validation is reported: the second, and after resuming the next one (a line comes first).

    Its map is there before the checkpoint, so it is written again; and half a line is left, as by a full disk.
    """
    overrides = GRAPH | {"training.steps": 6, "model.attention.cross.reach": "hard"}  # draws slots
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(experiment_from(overrides), whole, lambda line: None)
    for _ in range(2):
        assert forks.ended(forks.start(UNTIL, overrides, str(broken), 3)) == -signal.SIGKILL, forks.log.read_text()
        assert not (broken / "record.json").exists()
        steps = [one["step"] for one in Store(tmp_path).learning("broken")]
        with (broken / "maps.jsonl").open("a") as maps:
            maps.write('{"step": 4, "sour')
        assert [one["step"] for one in Store(tmp_path).learning("broken")] == steps != []
    said = []
    run(experiment_from(overrides), broken, said.append)
    assert said[0].startswith("continuing")
    assert timeless(broken) == timeless(whole)
    for name in ("valid.hyp.txt", "test.hyp.txt", "history.jsonl", "maps.jsonl"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


def test_the_record_can_be_recomputed(tmp_path):
    experiment, folder, said = experiment_from(SMALL), tmp_path, []
    record = run(experiment, folder, said.append)
    assert said[-1] == "testing on valid, test, long, deep, pronoun"
    assert record.id == experiment_id(experiment)
    assert experiment_from(record.config) == experiment_from(SMALL, {"trainer": {"threads": None, "device": "auto"}})
    corpus = load(experiment.data)
    hypotheses = (folder / "test.hyp.txt").read_text().splitlines()
    references = [pair.target for pair in corpus.splits["test"]]
    assert record.score("test", "bleu") == pytest.approx(scoring.bleu(hypotheses, references).value, rel=1e-5)
    assert record.score("test", "exact") == pytest.approx(scoring.exact_match(hypotheses, references).value)
    assert sorted(record.per_sentence) == sorted(f"{split}.nll.txt" for split in corpus.splits if split != "train")
    for name, digest in record.per_sentence.items():
        content = (folder / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        nll = [float(line) for line in content.decode().splitlines()]
        assert sum(nll) / len(nll) == pytest.approx(record.score(name.split(".")[0], "nll"), rel=1e-5)
    pairs, split = corpus.splits["valid"], "valid"
    lines = [float(line) for line in (folder / "valid.nll.txt").read_text().split()]
    mine = [nll for nll, pair in zip(lines, pairs, strict=True) if without_pronouns([pair])[0]]
    subset = "without pronouns"
    assert record.score(split, "nll", subset) == pytest.approx(sum(mine) / len(mine), rel=1e-5)
    trained = translation.read((folder / "model.pt").read_bytes(), "model.pt")
    alone = [decode.forced_nll(trained.model, examples([pair], trained.vocabulary)) for pair in corpus.splits["test"]]
    lines = (folder / "test.nll.txt").read_text().split()
    assert [float(line) for line in lines] == pytest.approx([float(nll) for nll in alone], rel=1e-5)
    assert [point["step"] for point in record.history] == [4, 8, 12]
    best = max(record.history, key=lambda point: point["valid_bleu"])
    assert (record.selection.step, record.selection.value) == (best["step"], best["valid_bleu"])
    (layer,) = record.diagnostics["cross"]
    assert 0 < layer["entropy"][0] < 1
    assert [record.diagnostics["gradients"][moment]["step"] for moment in ("start", "middle", "end")] == [0, 8, 12]
    assert [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()] == record.history
    assert record.history[-1]["diagnostics"]["cross"]["entropy"] == layer["entropy"][0]
    assert (folder / "record.json").stat().st_size < 40_000


def test_a_loss_that_is_no_number_is_a_diverged_record(tmp_path):
    record = run(experiment_from(SMALL, {"training.learning_rate": 1e38, "training.clip": 1e30}), tmp_path)
    assert record.status == "diverged"
    assert "step" in record.error


def test_a_damaged_checkpoint_is_one_line(tmp_path):
    """Left by a run that broke off, then damaged; another model's is as little use."""

    def broken(line):
        if line.startswith("step 4/"):
            raise InterruptedError

    small = GRAPH | {"training.steps": 6}
    with pytest.raises(InterruptedError):
        run(experiment_from(small), tmp_path, broken)
    checkpoint = tmp_path / "checkpoint.ckpt"
    whole = checkpoint.read_bytes()
    weights = max(torch.load(checkpoint)["state_dict"].values(), key=torch.numel)
    place = whole.index(weights.numpy().tobytes())
    flipped = whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :]
    for content, width in ((whole[:-400], 16), (flipped, 16), (whole, 18)):
        checkpoint.write_bytes(content)
        with pytest.raises(InputError, match=r"checkpoint\.ckpt: .*\. Remove it to start again\.") as refusal:
            run(experiment_from(small, {"model.width": width}), tmp_path, lambda line: None)
        assert "\n" not in str(refusal.value)
        assert not (tmp_path / "record.json").exists()
