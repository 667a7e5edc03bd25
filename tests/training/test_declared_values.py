"""Every value that a field declares trains a step. The CPU plays the GPU."""

import subprocess
import sys
from pathlib import Path
from random import Random

import legal_models
import pytest
import pytorch_lightning as pl
import torch
from tiny_sweep import GRAPH

import study
from study.config import experiment_from
from study.config.experiment import Trainer, Training
from study.config.mechanisms import choices
from study.training import machine
from study.training import run as runs

NUMBERS = {
    "training.steps": 3,
    "training.batch_tokens": 200,
    "training.learning_rate": 0.01,
    "training.warmup": 2,
    "training.adam_beta2": 0.9,
    "training.label_smoothing": 0.0,
    "training.clip": 0.1,
    "training.validate_every": 1,
    "trainer.devices": 1,
    "trainer.threads": 1,
}
"""A value of every field that is a number."""
STEP = {"training.steps": 2, "training.validate_every": 2}


def declared():
    """Every field of the recipe and of its hardware with every value, of numbers with one."""
    for section, kind in (("training", Training), ("trainer", Trainer)):
        for name, field in kind.model_fields.items():
            dotted = f"{section}.{name}"
            for value in choices(field) or (NUMBERS[dotted],):
                yield pytest.param(dotted, value, id=f"{name}={value}")


@pytest.mark.usefixtures("few_validated")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("field", "value"), declared())
def test_a_value_of_the_recipe_trains_tests_and_records(tmp_path, monkeypatch, field, value):
    monkeypatch.setattr(runs, "device_for", lambda experiment: torch.device("cpu"))
    experiment = experiment_from(GRAPH, STEP, {field: value})
    record = runs.run(experiment, tmp_path, lambda line: None)
    assert record.status == "finished"
    assert [point["step"] for point in record.history][-1] == experiment.training.steps
    assert record.provenance.precision == experiment.training.precision


def test_bfloat16_needs_no_gpu_but_not_one_without_it(monkeypatch):
    half = experiment_from(GRAPH, {"training.precision": "bfloat16", "trainer.device": "auto"})
    assert machine.device_for(half).type == ("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    with pytest.raises(study.InputError, match=r"training\.precision: expected float32 on a GPU without bfloat16"):
        machine.device_for(half)


def trained(task, data, **options):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(accelerator="cpu", enable_model_summary=False, **quiet | options)
    trainer.fit(task, data)
    return trainer


@pytest.fixture(scope="module")
def graph():
    experiment = experiment_from(GRAPH, STEP)
    return experiment, study.DataModule(experiment)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed", "16-mixed"])
def test_a_trainer_of_ones_own_has_any_precision_that_keeps_the_weights(graph, precision):
    experiment, data = graph
    task = study.Task(experiment, data)
    before = [parameter.detach().clone() for parameter in task.parameters()]
    trained(task, data, max_steps=2, precision=precision)
    after = list(task.parameters())
    assert not all(torch.equal(x.double(), y.double()) for x, y in zip(before, after, strict=True))
    assert all(parameter.isfinite().all() for parameter in after)
    assert task.history[-1]["step"] == 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", ["bf16-true", "16-true"])
def test_half_precision_weights_are_refused_in_one_line(graph, precision):
    experiment, data = graph
    with pytest.raises(study.InputError, match=rf"^precision: expected 32-true, .*, got {precision}\..*trainer\.$"):
        trained(study.Task(experiment, data), data, max_steps=2, precision=precision)


@pytest.mark.filterwarnings("ignore")
def test_every_mechanism_trains_a_step_in_bfloat16(graph):
    """Models of every value of every axis, drawn at random as in `test_every_legal_model`."""
    missing, random = legal_models.everything(), Random(9)
    _, data = graph
    for drawn in range(38):
        fields = legal_models.drawn_from(random, missing)
        missing -= {legal_models.said(*item) for item in fields.items()}
        kept = {name: value for name, value in GRAPH.items() if not name.startswith("model.")}
        try:
            task = study.Task(experiment_from(kept, STEP, fields), data)
            trained(task, data, max_steps=1, precision="bf16-mixed", limit_val_batches=0)
        except Exception as problem:
            raise AssertionError(f"model {drawn}: {fields}") from problem
        assert all(parameter.isfinite().all() for parameter in task.parameters()), fields
    assert missing == set()


class Batches(pl.Callback):
    """The rows of every batch, and a random number that the batch draws."""

    def __init__(self):
        self.rows, self.draws = [], []

    def on_train_batch_start(self, trainer, task, batch, index):
        self.rows += map(tuple, batch.source.tolist())
        self.draws.append(torch.default_generator.initial_seed())


@pytest.mark.filterwarnings("ignore")
def test_accumulated_batches_are_those_of_as_many_updates(graph):
    """Two updates of two batches read what four updates read, each once, and each with draws of its own."""
    experiment, data = graph
    seen = []
    for parts in (1, 2):
        callback = Batches()
        trained(
            study.Task(experiment, data),
            data,
            max_steps=4 // parts,
            accumulate_grad_batches=parts,
            callbacks=[callback],
            limit_val_batches=0,
        )
        seen.append(callback)
    assert seen[0].rows == seen[1].rows
    assert len(set(seen[1].draws)) == 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fields", [{}, {"score": "additive", "heads": 2}, {"maps": "separate", "combine": "gate"}])
def test_a_layer_in_half_precision_computes_what_its_rounded_parameters_say(dtype, fields):
    layer, query = study.Attention(8, **fields).to(dtype), torch.randn(2, 3, 8).to(dtype)
    wide = study.Attention(8, **fields)
    wide.load_state_dict({name: tensor.float() for name, tensor in layer.state_dict().items()})
    contexts, weights = layer(query, causal=True, weights=True)
    wanted, of = wide(query.float(), causal=True, weights=True)
    assert contexts.dtype == dtype
    assert torch.equal(contexts, wanted.to(dtype))
    assert torch.equal(weights, of)
    assert {parameter.dtype for parameter in layer.parameters()} == {dtype}
    contexts.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


SCRIPT = """
import study
run = study.train(corpus="files", folder="text", source="aa", target="bb", tokens="words", width=8, steps=2, beam=1,
    validate_every=2, runs="runs", watch=None, **{"trainer.device": "cpu", "trainer.devices": 2})
print("trained once:", run.record.status)
"""


@pytest.mark.parametrize("source", ["file", "standard input"])
def test_a_plain_script_trains_on_two_devices(tmp_path, source):
    """Without a main guard, and without a file."""
    (tmp_path / "own.py").write_text(SCRIPT)
    (tmp_path / "text").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "text" / f"{split}.tsv").write_text("ba na su to\tab an us ot\n" * 4)
    command = [sys.executable, "-P", *(["own.py"] if source == "file" else ["-"])]
    given = None if source == "file" else SCRIPT
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, input=given)
    assert done.stdout == "trained once: finished\n", done.stderr
    assert len(list(Path(tmp_path, "runs").glob("*/record.json"))) == 1
