"""A user's own Lightning trainer reaches the weights, scores and checkpoints of `study train`."""

import csv
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from tiny_sweep import GRAMMAR, GRAPH

import study
from study.attention.multihead import MultiHeadAttention
from study.config import experiment_from
from study.training.run import run

HARD = {"model.attention.cross.reach": "hard"}  # draws a slot for each query


class Losses(pl.Callback):
    """A user's callback: what has been logged by each step."""

    def __init__(self):
        self.train = []
        self.valid = []

    def on_train_batch_end(self, trainer, *_):
        self.train.append(float(trainer.callback_metrics["train/loss"]))

    def on_validation_end(self, trainer, *_):
        if not trainer.sanity_checking:
            self.valid.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def trainer(folder, **options):
    usual = {"accelerator": "cpu", "devices": 1, "default_root_dir": folder}
    return pl.Trainer(**usual | {"enable_progress_bar": False, "enable_model_summary": False} | options)


@pytest.mark.usefixtures("few_validated")
@pytest.mark.filterwarnings("ignore")  # Lightning's advice on workers and plugins
def test_a_trainer_of_ones_own_reaches_the_weights_of_a_run(tmp_path):
    """Uninterrupted, and from a checkpoint of Lightning's own; validated with a period that is not the recipe's."""
    experiment = experiment_from(GRAPH, HARD, {"training.steps": 9, "training.select": "last"})
    record = run(experiment, tmp_path / "run", lambda line: None)
    wanted = torch.load(tmp_path / "run" / "model.pt")["state"]
    losses, data = Losses(), study.DataModule(experiment)
    kept = pl.callbacks.ModelCheckpoint(tmp_path, "best", monitor="valid/nll")
    logger = pl.loggers.CSVLogger(tmp_path, "logs")
    task = study.Task(experiment, data)
    threads = torch.get_num_threads()
    own = trainer(
        tmp_path, max_steps=9, val_check_interval=3, log_every_n_steps=1, callbacks=[losses, kept], logger=logger
    )
    own.fit(task, data)
    assert own.global_step == 9
    for name, tensor in task.model.state_dict().items():
        assert torch.equal(tensor, wanted[name]), name
    assert [point["step"] for point in task.history] == [3, 6, 9]
    last, again = task.history[-1], record.history[-1]
    for name in ("train_loss", "valid_loss", "valid_bleu", "valid_exact"):
        assert float(f"{last[name]:.6g}") == again[name], name
    assert losses.train[-1] == pytest.approx(last["train_loss"])
    logged = losses.valid[-1]
    assert logged["valid/perplexity"] == pytest.approx(torch.tensor(last["valid_loss"]).exp().item(), rel=1e-5)
    assert (logged["valid/bleu"], logged["valid/exact"]) == pytest.approx((last["valid_bleu"], last["valid_exact"]))
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]
    assert rows == pytest.approx(losses.train, rel=1e-5)
    (tested,) = own.test(task, data, verbose=False)
    scores = {(score.split, score.metric, score.subset): score.value for score in record.scores}
    assert tested["test/nll"] == pytest.approx(scores["test", "nll", None], rel=1e-5)
    assert {name for name in tested if name.startswith("valid/")} >= {"valid/bleu", "valid/exact", "valid/nll"}
    assert len(tested) == sum(value is not None for value in scores.values())
    assert torch.get_num_threads() == threads

    early = study.Task(experiment, data)
    trainer(tmp_path, max_steps=5, logger=False, callbacks=[pl.callbacks.ModelCheckpoint(tmp_path, "five")]).fit(
        early, data
    )
    assert [point["step"] for point in early.history] == [5]  # by default, after the last step
    late = study.Task(experiment, data)
    trainer(tmp_path, logger=False, enable_checkpointing=False).fit(late, data, ckpt_path=tmp_path / "five.ckpt")
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in late.model.state_dict().items())
    before = len(late.history)
    (found,) = trainer(tmp_path, logger=False).validate(late, data, verbose=False)
    assert found["valid/nll"] == pytest.approx(logged["valid/nll"])
    assert len(late.history) == before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("scale", "share"), [("rsqrt", 2), ("inverse", 4)])
def test_adam_trains_an_unscaled_dot_product_as_a_scaled_one_if_maps_start_and_learn_like_it(tmp_path, scale, share):
    """W_Q and W_K stay the scaled ones ÷ d^¼ (1/√d) or ÷ √d (1/d), bit by bit, under warm-up, clipping and dropout.

    Unscaled logits (W' x)·(W' m) with W' = W / c are the ones scaled by 1/c², and ∂L/∂W' = c ∂L/∂W. Adam's step does
    not depend on the size of the gradient, so W' moves by 1/c of what W moves by if its rate is 1/c of W's. Either
    alone is another arm.
    """
    maps = {
        "model.family": "transformer",
        "model.layers": 1,
        "model.attention": {"maps": "separate", "heads": 1, "key_width": 16},
    }
    recipe = {"training.steps": 3, "training.validate_every": 3, "training.learning_rate": 0.1, "training.clip": 0.5}
    start, rate = {"model.attention.logit_init": scale}, {"model.attention.map_rate": scale}
    unscaled = {"model.attention.scale": "none"}
    arms = (
        {"model.attention.scale": scale},
        {**unscaled, **start, **rate},
        {**unscaled, **start},
        {**unscaled, **rate},
    )
    data, trained = study.DataModule(experiment_from(GRAMMAR, maps, recipe)), []
    for arm in arms:
        task = study.Task(experiment_from(GRAMMAR, maps, recipe, arm), data)
        quiet = {"logger": False, "enable_checkpointing": False, "limit_val_batches": 0}
        trainer(tmp_path, max_steps=3, **quiet).fit(task, data)
        trained.append(dict(task.model.state_dict()))
    scaled, both, *others = trained
    for name, tensor in scaled.items():
        ratio = share if name.endswith(("map_query.weight", "map_key.weight")) else 1
        assert torch.equal(tensor, both[name] * ratio), name
    for other in others:
        assert not torch.allclose(other["unembedding.bias"], scaled["unembedding.bias"], rtol=1e-4)


def test_maps_of_the_third_rate_learn_at_one_over_the_root_of_d_of_the_rate_under_the_usual_scale(
    tmp_path, monkeypatch
):
    """At d = 16, W_Q and W_K start at 1/2 of their values and learn at 16^−¾ = 1/8 of the rate: 1/4, relative to W.

    The reference has the scale 1/√d, and its maps get a quarter of the rate by hand.
    """
    maps = {"maps": "separate", "heads": 1, "key_width": 16}
    start = {"model.family": "transformer", "model.layers": 1, "model.attention": maps}
    recipe = {"training.steps": 3, "training.validate_every": 3, "training.learning_rate": 0.1, "training.clip": 0.5}
    prefix = "model.attention."
    arm = {prefix + "scale": "none", prefix + "logit_init": "rsqrt", prefix + "map_rate": "inverse_rsqrt"}
    data, trained = study.DataModule(experiment_from(GRAMMAR, start, recipe)), []

    def quarter(site):
        return {parameter: 0.25 for part in (site.map_query, site.map_key) for parameter in part.parameters()}

    for fields in (arm, {prefix + "scale": "rsqrt"}):
        task = study.Task(experiment_from(GRAMMAR, start, recipe, fields), data)
        quiet = {"logger": False, "enable_checkpointing": False, "limit_val_batches": 0}
        trainer(tmp_path, max_steps=3, **quiet).fit(task, data)
        trained.append(dict(task.model.state_dict()))
        monkeypatch.setattr(MultiHeadAttention, "shares", quarter)
    unscaled, scaled = trained
    for name, tensor in scaled.items():
        ratio = 2 if name.endswith(("map_query.weight", "map_key.weight")) else 1
        assert torch.equal(tensor, unscaled[name] * ratio), name


def test_a_limit_of_the_trainer_counts_and_a_pruning_is_refused(tmp_path):
    experiment = experiment_from(GRAPH)
    limited, plain = study.Task(experiment), study.Task(experiment)
    quiet = {"logger": False, "enable_checkpointing": False, "limit_val_batches": 0, "max_steps": 1}
    trainer(tmp_path, gradient_clip_val=1e-30, **quiet).fit(limited, limited.data)
    trainer(tmp_path, **quiet).fit(plain, plain.data)
    moved = [task.model.unembedding.bias.abs().max() for task in (limited, plain)]
    assert moved[0] < 1e-6 < moved[1]
    with pytest.raises(study.InputError, match="pruning: expected an experiment that is trained"):
        study.Task(
            experiment_from({"model.attention.heads": 2, "pruning.question": "curve", "pruning.order": "greedy"})
        )
