"""The Lightning module and its data: one recipe for every arm, and a history that survives interruption.

`study train` uses them with a trainer of its own; a user's `pl.Trainer` reaches the same weights at the same step:

    data = study.DataModule(experiment)
    pl.Trainer(max_steps=100, logger=..., callbacks=[...]).fit(study.Task(experiment, data), data)
"""

import math
import time
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn import functional as F

from study.attention import Terms
from study.config import Experiment
from study.config.experiment import threads_for
from study.corpora import load
from study.errors import InputError
from study.models import Translator, build, match_logits
from study.models.dropout import follow_protocol
from study.models.transformer import Transformer
from study.models.translator import PAD
from study.scores import scoring
from study.training import batches, decode, diagnostics, step
from study.training.alignment import validation_error
from study.training.batches import Batch, Example, Share
from study.training.evaluate import Evaluation, evaluate
from study.training.ranks import mean_over_ranks
from study.training.vocabulary import factor_tokens, vocabulary_for

Tree = dict[str, Any]
DIAGNOSED = 64
"""Sentences of the fixed validation batch that is diagnosed."""
PRECISIONS = ("32-true", "64-true", "bf16-mixed", "16-mixed")
"""Precisions of a trainer: all in which weights have 32 bits or more."""
KEPT = ("history", "diagnostics", "gradients", "best", "tokens", "train_seconds", "baseline", "last_loss")
"""State of a task that a checkpoint keeps beside Lightning's."""


class DivergedError(Exception):
    """The loss is not a number any more."""


class DataModule(pl.LightningDataModule):
    """Data of an experiment, read when the object is made: batches are functions of (seed, step).

    One epoch of Lightning is the whole training: `max_steps` of the trainer, or the steps of the recipe if the trainer
    has no `max_steps`. Validation and test have one batch each, because `Task` forms batches by length itself.

    Attributes:
        corpus: sentence pairs by split.
        vocabulary: tokens, learned on the training split.
        train, valid: examples of these splits.
        lengths: sentence lengths of the training split.

    Args:
        experiment: what is trained.

    Raises:
        InputError: the data cannot be used, or a window of the model hides no slot of any sentence.
    """

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self.experiment = experiment
        self.corpus = load(experiment.data)
        self.vocabulary = vocabulary_for(experiment.data, self.corpus)
        self.train = self.examples("train")
        self.valid = self.examples("valid")
        self.lengths = batches.sentence_lengths(self.train)
        batches.check_windows(experiment.model, self.corpus, self.vocabulary)

    def examples(self, split: str) -> list[Example]:
        """Return the tokenised pairs of a split."""
        return batches.examples(self.corpus.splits[split], self.vocabulary)

    def steps(self, first: int, last: int) -> batches.Steps:
        """Return the training batches of the updates `first` to `last` − 1, counted from 0."""
        return batches.Steps(self.train, self.experiment.training.batch_tokens, self.experiment.seed, first, last)

    def train_dataloader(self) -> batches.Steps:
        assert self.trainer is not None
        last, parts = self.trainer.max_steps, self.trainer.accumulate_grad_batches
        last = self.experiment.training.steps if last < 0 else last
        return self.steps(self.trainer.global_step * parts, last * parts)

    def val_dataloader(self) -> range:
        return range(1)

    test_dataloader = val_dataloader


def initial_model(experiment: Experiment, data: DataModule) -> Translator:
    """Return the model that training begins with.

    Raises:
        InputError: no batch holds a sentence.
    """
    model = build(experiment.model, len(data.vocabulary), experiment.seed, data.lengths)
    shortest = min(example.length for example in data.train)
    if experiment.training.batch_tokens < shortest:
        raise InputError(
            f"training.batch_tokens: expected at least {shortest}, the tokens of the shortest pair, got "
            f"{experiment.training.batch_tokens}. Use more."
        )
    first = next(iter(data.steps(0, 1)))
    if isinstance(model, Transformer) and model.config.factors == "split":
        model.split(*factor_tokens(data.vocabulary, experiment.data.factors))
    match_logits(model, first.source, first.mask, first.given)
    return model


class Task(pl.LightningModule):
    """Training, validation and test of an experiment under any `pl.Trainer`.

    Optimiser, learning rate, clipping and random draws follow the recipe of the experiment, whatever the trainer. Its
    `max_steps` may end training earlier. Small models take one CPU thread, as in `study train`.

    Logged values have the names of `study.scores.metrics`:

    - every `log_every_n_steps` of the trainer: `train/loss` (nats per token, with label smoothing) and `train/lr`;
    - each validation: `valid/loss` (nats per token), `valid/nll`, `valid/perplexity`, `valid/bleu` and `valid/exact`,
      the last two by greedy search;
    - `trainer.test`: every score of a record, of the weights that the model has. `take_selected` takes those that the
      recipe selects.

    Args:
        experiment: what to train.
        data: its data (default: read again).
        model: the model (default: that of the experiment, with its initial values).

    Raises:
        InputError: the data cannot be used, or the experiment is a pruning and no model is given.
    """

    def __init__(self, experiment: Experiment, data: DataModule | None = None, model: Translator | None = None) -> None:
        super().__init__()
        if experiment.pruning is not None and model is None:
            raise InputError("pruning: expected an experiment that is trained, got a pruning. Use `study prune`.")
        self.experiment, self.recipe = experiment, experiment.training
        self.data = data or DataModule(experiment)
        self.model = model or initial_model(experiment, self.data)
        follow_protocol(self.model, experiment.protocol)
        self.vocabulary = self.data.vocabulary
        self.fitting = [example for example in self.data.valid if decode.fits(self.model, example)]
        if not self.fitting:
            raise InputError("model.positions: expected a sentence of valid that fits, got none. Use sinusoidal.")
        self.diagnosed = self.fitting[:DIAGNOSED]
        self.fixed = batches.collate(self.diagnosed)
        self.truth = diagnostics.truth(self.diagnosed, self.vocabulary, self.fixed)
        self.history: list[Tree] = []
        self.diagnostics: diagnostics.Diagnostics = {}
        self.gradients: Tree = {}
        self.best: Tree = {"step": 0, "value": None, "state": None}
        self.baseline = torch.tensor(-math.log(len(self.vocabulary)))
        self.tokens, self.train_seconds, self.last_loss = 0, 0.0, 0.0
        self.began, self.earlier_seconds = time.perf_counter(), 0.0
        self.before_step: Callable[[int], None] = lambda step: None
        """Gets the number of every update before it, counted from 0."""
        self.asked: Callable[[], bool] = lambda: False
        """Return True once this process has been asked to end."""
        self.calls: list[Tree] = []
        """Calls of the program that make this run, for its checkpoints."""
        self._uncounted: Tensor | int = 0
        self._since, self._threads, self._ending = time.perf_counter(), 0, False

    def setup(self, stage: str) -> None:
        """Take the threads that the experiment declares; `teardown` gives the caller's back.

        Raises:
            InputError: the trainer's precision makes the weights half precision, in which Adam's small steps are lost.
        """
        if (precision := self.trainer.precision) not in PRECISIONS:
            raise InputError(f"precision: expected {', '.join(PRECISIONS)}, got {precision}. Correct the trainer.")
        self._threads = torch.get_num_threads()
        asked, gpu = self.experiment.trainer.threads, self.trainer.strategy.root_device.type != "cpu"
        torch.set_num_threads(threads_for(self.experiment.model.width, asked, gpu) or self._threads)
        torch.set_flush_denormal(True)

    def teardown(self, stage: str) -> None:
        torch.set_num_threads(self._threads)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        groups, betas = step.parameter_groups(self.model), (0.9, self.recipe.adam_beta2)
        fused = not self.trainer.precision.endswith("mixed")  # Lightning does not clip a fused optimiser's gradients
        return torch.optim.Adam(groups, self.recipe.learning_rate, betas=betas, eps=1e-9, fused=fused)

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip the norm as the recipe says, unless the trainer has a limit of its own.

        The gradient of a parameter w with a share r of the learning rate is multiplied by r first. Adam then trains w
        as r·u, where u has the common rate, and the norm is that of the gradients of u.
        """
        for group in optimizer.param_groups:
            for parameter in group["params"] if group.get("share", 1.0) != 1 else ():
                if parameter.grad is not None:  # a site without heads has none
                    parameter.grad.mul_(group["share"])
        limit = self.recipe.clip if gradient_clip_val is None else gradient_clip_val
        self.clip_gradients(optimizer, limit, gradient_clip_algorithm or "norm")

    @property
    def ending(self) -> bool:
        """Return True if training must end after this step. Ranks agree on it when they share the loss."""
        return self._ending if self.trainer.world_size > 1 else self.asked()

    def on_fit_start(self) -> None:
        self.fixed = self.fixed.to(self.device)
        self.truth = {site: slots.to(self.device) for site, slots in self.truth.items()}
        if "start" not in self.gradients and self.trainer.is_global_zero:  # a run that goes on has trained weights
            self.measure_gradients("start")

    def on_train_start(self) -> None:
        self._since = time.perf_counter()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        self.before_step(self.global_step)
        own = f":rank:{self.global_rank}" if self.global_rank else ""  # rows of another rank: other draws
        if part := batch_idx % self.trainer.accumulate_grad_batches:  # another batch of the same update: other draws
            own += f":part:{part}"
        seed = step.step_seed(self.experiment.seed, self.global_step, own)
        if self.device.type == "cpu":  # torch.manual_seed would note the whole stack for GPUs that are not used
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        for site, layer, attention in self.model.sites():
            attention.reach.reseed(step.step_seed(self.experiment.seed, self.global_step, f":{site}:{layer}{own}"))
        self._rate = self.recipe.learning_rate * step.factor(self.global_step, self.recipe)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self._rate * group.get("share", 1.0)

    def on_train_epoch_end(self) -> None:
        if self.global_step >= self.recipe.steps:  # for a trainer that counts epochs
            self.trainer.should_stop = True

    def training_step(self, whole: Batch, batch_idx: int) -> Tensor:
        mine = batches.share(whole, self.global_rank, self.trainer.world_size)
        batch = mine.batch
        encoded = self.model.encode(batch.source, batch.mask)
        output = self.model.decode(encoded, batch.given)
        logits, wanted, smoothing = output.logits.flatten(0, 1), batch.wanted.flatten(), self.recipe.label_smoothing
        loss = F.cross_entropy(logits, wanted, ignore_index=PAD, label_smoothing=smoothing)
        terms = (*encoded.terms, *output.terms)
        loss = mine.tokens * loss + mine.sentences * step.penalties(terms)
        self._check(loss)
        every: int = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if every and (self.global_step + 1) % every == 0:  # Lightning takes a millisecond for it
            self.log_dict({"train/loss": self.last_loss, "train/lr": self._rate}, batch_size=1)
        self._uncounted = self._uncounted + (whole.wanted != PAD).sum()  # read later: reading waits for a GPU
        return loss + self._sampled(terms, output.logits, mine) if step.has_samples(terms) else loss

    def _sampled(self, terms: tuple[Terms, ...], logits: Tensor, mine: Share) -> Tensor | float:
        """Return the surrogate whose gradient is that of the samples. It is not a loss, so the history omits it."""
        wanted = mine.batch.wanted
        log_p, real = -decode.token_nll(logits.detach(), wanted), wanted != PAD
        added = mine.tokens * step.surrogate_loss(terms, log_p, real, self.baseline, self.model.carries)
        # Linear in the batch's mean, so that the ranks' weighted mean is the running mean of the whole batch.
        self.baseline = mean_over_ranks(mine.tokens * step.running_mean(self.baseline, log_p, real))
        return added

    def _check(self, loss: Tensor) -> None:
        """Reading the loss waits for a GPU, so there it is read every 20 steps. All ranks see the batch's and agree."""
        if loss.is_cpu or self.global_step % 20 == 0:
            asked = loss.new_tensor(float(self.asked()))
            value, asking = mean_over_ranks(torch.stack((loss.detach(), asked))).tolist()
            self._ending = asking > 0
            if not math.isfinite(value):
                raise DivergedError(f"the training loss became {value} at step {self.global_step}")
            self.last_loss = value

    def count(self) -> tuple[int, float]:
        """Return target tokens so far, and seconds in training steps."""
        now = time.perf_counter()
        self.tokens, self._uncounted = self.tokens + int(self._uncounted), 0
        self.train_seconds, self._since = self.train_seconds + now - self._since, now
        return self.tokens, self.train_seconds

    def validation_step(self, batch: int, batch_idx: int) -> None:
        if self.trainer.sanity_checking:
            return
        self.count()
        new = self.global_step > (self.history[-1]["step"] if self.history else 0)
        values = {}
        if self.trainer.is_global_zero:
            with torch.autocast(self.device.type, enabled=False):
                values = self._validate(new)
        elif new:
            self.history.append({"step": self.global_step})  # so that all ranks know what has been validated
        values = self.trainer.strategy.broadcast(values)  # the other ranks wait here
        if math.isnan(values["valid/loss"]):
            raise DivergedError(f"the validation loss became NaN at step {self.global_step}")
        self.log_dict(values, batch_size=1, rank_zero_only=False)
        self._since = time.perf_counter()

    def _validate(self, new: bool) -> dict[str, float]:
        """Validate, and add to the history if the step is `new` to it."""
        nll = decode.forced_nll(self.model, self.fitting)
        loss = float(nll.sum()) / sum(len(example.target) + 1 for example in self.fitting)
        if math.isnan(loss):
            return {"valid/loss": loss}
        hypotheses = decode.translate(self.model, self.data.valid, self.vocabulary, 1, 0.0)
        references = [example.pair.target for example in self.data.valid]
        bleu, exact = scoring.bleu(hypotheses, references).value, scoring.exact_match(hypotheses, references).value
        if new:
            calls = diagnostics.observe(self.model, self.fixed)
            self.diagnostics = diagnostics.diagnose(calls, self.fixed, self.truth)
            if self.global_step >= self.recipe.steps:
                self.measure_gradients("end")
            elif 2 * self.global_step >= self.recipe.steps and "middle" not in self.gradients:
                self.measure_gradients("middle")
            point = {
                "step": self.global_step,
                "tokens": self.tokens,
                "train_loss": self.last_loss,
                "valid_loss": loss,
                "valid_bleu": bleu,
                "valid_exact": exact,
                "lr": self.recipe.learning_rate * step.factor(self.global_step - 1, self.recipe),
                "valid_aer": validation_error(calls, self.fixed, self.diagnosed, self.vocabulary),
                "diagnostics": diagnostics.site_means(self.diagnostics),
            }
            self.history.append(point)
            self._select(point)
        means = {"valid/loss": loss, "valid/nll": float(nll.mean()), "valid/perplexity": math.exp(min(loss, 700.0))}
        return {**means, "valid/bleu": bleu, "valid/exact": exact}

    def measure_gradients(self, moment: str) -> None:
        """Measure where gradients arrive: at the `start`, with the initial values, in the `middle` and at the `end`."""
        found = diagnostics.gradients(self.model, self.fixed, self.truth)
        self.gradients[moment] = {"step": self.global_step, **found}

    def _select(self, point: Tree) -> None:
        """Keep the weights that the rule prefers; of equals the earlier."""
        values = {"best_valid_bleu": point["valid_bleu"], "best_valid_loss": -point["valid_loss"]}
        value = values.get(self.recipe.select, float(point["step"]))
        if self.best["value"] is None or value > self.best["value"]:
            state = {name: tensor.detach().cpu().clone() for name, tensor in self.model.state_dict().items()}
            self.best = {"step": point["step"], "value": value, "state": state}

    def take_selected(self) -> None:
        """Take the weights that the recipe selects, if there has been a validation."""
        if self.best["state"] is not None:
            self.model.load_state_dict(self.best["state"])

    def test_step(self, batch: int, batch_idx: int) -> None:
        with torch.autocast(self.device.type, enabled=False):
            scores = self.evaluate().scores
        named = {"/".join(filter(None, (one.split, one.metric, one.subset))): one.value for one in scores}
        self.log_dict({name: value for name, value in named.items() if value is not None}, batch_size=1)

    def evaluate(self) -> Evaluation:
        """Score validation and all test splits with the weights that the model has."""
        return evaluate(self.experiment, self.model.eval(), self.vocabulary, self.data.corpus, self.data.valid)

    def on_save_checkpoint(self, checkpoint: Tree) -> None:
        self.count()
        seconds = self.earlier_seconds + time.perf_counter() - self.began
        kept = {name: getattr(self, name) for name in KEPT}
        checkpoint["study"] = {**kept, "calls": self.calls, "earlier_seconds": seconds}

    def on_load_checkpoint(self, checkpoint: Tree) -> None:
        for name in (*KEPT, "earlier_seconds"):
            setattr(self, name, checkpoint["study"][name])
