"""One run on two processes: the numbers of one, and one writer."""

import os
import signal

import pytest
import torch
from processes import parents, until
from tiny_sweep import GRAPH

from study.config import experiment_from
from study.errors import InputError
from study.store import records
from study.training import machine
from study.training.batches import Batch, share
from study.training.run import run

pytestmark = pytest.mark.usefixtures("few_validated")
SMALL = GRAPH | {"model.dropout": 0.0, "training.steps": 5, "training.warmup": 2, "training.validate_every": 3}
ARM = {
    "model.memory": "structured",
    "model.penalty": 0.5,
    "model.attention.cross.score": "uniform",  # leaves a parameter without use
}


STOPPED = """
from study.training import ranks, task
share, calls = task.mean_over_ranks, []
def interrupted(value):
    calls.append(value)
    if len(calls) == 3 and ranks.distributed.get_rank() == 0:
        os.kill(os.getpid(), signal.SIGTERM)
    return share(value)
ranks.START, task.mean_over_ranks = "fork", interrupted
run(experiment_from(given[0]), Path(given[1]))
"""
"""A run whose rank 0 gets SIGTERM while it shares the loss of step 3, which a validation follows."""
CONTINUED = """
from study.training import ranks
ranks.START = "fork"
run(experiment_from(given[0]), Path(given[1]))
"""


def test_two_devices_give_the_losses_of_one(forks, tmp_path):
    """Without dropout, up to rounding, and across a stop; all that is there afterwards was written once."""
    one = run(experiment_from(SMALL, ARM), tmp_path / "one", lambda line: None)
    fields = {**SMALL, **ARM, "trainer.devices": 2}
    stopped = forks.ended(forks.start(STOPPED, fields, str(tmp_path / "two")))
    assert stopped == -signal.SIGTERM, forks.log.read_text()
    assert torch.load(tmp_path / "two" / "checkpoint.ckpt", weights_only=True)["global_step"] == 4
    assert forks.ended(forks.start(CONTINUED, fields, str(tmp_path / "two"))) == 0, forks.log.read_text()
    two = records.read(tmp_path / "two" / "record.json")
    assert two.id == one.id
    assert [point["step"] for point in two.history] == [3, 5]
    for mine, alone in zip(two.history, one.history, strict=True):
        assert mine["tokens"] == alone["tokens"]
        for name in ("train_loss", "valid_loss"):
            assert mine[name] == pytest.approx(alone[name], rel=1e-3)
    assert two.provenance.device_count == 2
    said = forks.log.read_text().splitlines()
    assert [line.split()[0] for line in said] == ["continuing", "step", "testing"]
    names = [{path.name for path in (tmp_path / folder).iterdir()} for folder in ("one", "two")]
    assert names[1] == names[0]
    assert len((tmp_path / "two" / "history.jsonl").read_text().splitlines()) == 2


QUICK = """
from study.training import ranks
joined = ranks._joined
def announced(*arguments):
    Path(given[1]).write_text(str(os.getpid()))
    joined(*arguments)
ranks.GRACE, ranks.START, ranks._joined = 1.0, "fork", announced
sys.exit(main(given[0]))
"""
"""A command whose second rank writes its process id; it begins at once, and a rank that hangs is ended after 1 s."""


@pytest.mark.parametrize(
    ("number", "of", "when", "status"),
    [
        (signal.SIGTERM, "second", "training", 143),
        (signal.SIGTERM, "group", "starting", 143),
        (signal.SIGKILL, "second", "training", 1),
        (signal.SIGKILL, "first", "training", -9),
    ],
)
def test_a_stop_of_any_rank_stops_the_run_and_what_is_started_ends(number, of, when, status, forks, tmp_path):
    """Real signals to a run of two processes."""
    fields = {**SMALL, "training.steps": 2000, "training.validate_every": 1000, "trainer.devices": 2}
    words = ["train", *(f"--{name}={value}" for name, value in fields.items()), "--runs", str(tmp_path)]
    announced = tmp_path / "second"
    first = forks.start(QUICK, words, str(announced))
    until(lambda: announced.exists() and announced.read_text())
    second = int(announced.read_text())
    if when == "training":
        until(lambda: any(path.read_text().count("\n") > 1 for path in tmp_path.glob("*/training.jsonl")))
    (os.killpg if of == "group" else os.kill)(second if of == "second" else first, number)
    assert forks.ended(first) == status, forks.log.read_text()
    until(lambda: second not in parents())
    assert not list(tmp_path.glob("*/record.json")), "a run that is half trained has no record"
    assert len(list(tmp_path.glob("*/checkpoint.ckpt"))) == (of == "second" and number == signal.SIGTERM)


def test_the_ranks_weighted_means_are_those_of_the_batch():
    """Three ranks and two sentences, of 3 and 1 words: the last rank has none."""
    wanted = torch.tensor([[5, 6, 7], [8, 0, 0]])
    batch = Batch(wanted, wanted != 0, wanted, wanted)
    loss = {5: 1.0, 6: 2.0, 7: 6.0, 8: 7.0}
    parts = [share(batch, rank, 3) for rank in range(3)]
    assert [part.batch.wanted.tolist() for part in parts] == [[[5, 6, 7]], [[8, 0, 0]], [[5, 6, 7]]]
    assert [float(part.tokens) for part in parts] == [3 * 3 / 4, 3 * 1 / 4, 0]
    assert [part.sentences for part in parts] == [3 / 2, 3 / 2, 0]
    means = [3.0, 7.0, 3.0]  # over the tokens of each
    assert sum(float(part.tokens) * mean for part, mean in zip(parts, means, strict=True)) / 3 == sum(loss.values()) / 4
    assert share(batch, 0, 1) == (batch, 1.0, 1.0)


def test_more_devices_than_gpus_is_one_line(monkeypatch):
    """On the CPU they are processes, and as many as one likes."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    four = {"trainer.devices": 4, "trainer.device": "auto"}
    with pytest.raises(
        InputError, match=r"trainer\.devices: expected at most 2 \(GPUs of this machine: 2\), got 4\. Use"
    ):
        machine.device_for(experiment_from(four))
    assert machine.device_for(experiment_from(four, {"trainer.devices": 2})).type == "cuda"
    assert machine.device_for(experiment_from(four, {"trainer.device": "cpu"})).type == "cpu"
