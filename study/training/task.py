"""The Lightning module: one recipe for every arm, and a history that survives interruption."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn import functional as F

from study import scoring
from study.attention import Terms
from study.config import Experiment
from study.models import Translator
from study.models.translator import PAD
from study.records import Call
from study.training import decode, gold, sampling
from study.training.batches import Batch, Example, Share, Steps, collate, share
from study.training.diagnostics import Diagnostics, diagnose, gradients, in_history, look, truth
from study.training.ranks import mean_over_ranks
from study.training.step import factor, penalties, step_seed
from study.training.vocabulary import Vocabulary

DIAGNOSED = 64
"""Sentences of the fixed validation batch that is diagnosed."""


class DivergedError(Exception):
    """The loss is not a number any more."""


class Task(pl.LightningModule):
    """Trains, validates, remembers the selected weights, and keeps the history.

    Args:
        experiment: what to train.
        model: its model.
        vocabulary: its tokens.
        train: training examples.
        valid: validation examples.
        report: called with every point of the history.
        began: when this call began, as `time.perf_counter` has it (default: now).
        asked: whether this process has been asked to end (default: never).
        calls: the calls that make this run, for its checkpoints.
    """

    def __init__(
        self,
        experiment: Experiment,
        model: Translator,
        vocabulary: Vocabulary,
        train: Sequence[Example],
        valid: Sequence[Example],
        report: Callable[[dict[str, Any]], None],
        began: float | None = None,
        asked: Callable[[], bool] = lambda: False,
        calls: Sequence[Call] = (),
    ) -> None:
        super().__init__()
        self.experiment, self.recipe = experiment, experiment.training
        self.model, self.vocabulary = model, vocabulary
        self.train_data, self.valid_data, self.report = train, valid, report
        self.fitting = [example for example in valid if decode.fits(model, example)]
        self.diagnosed = self.fitting[:DIAGNOSED]
        self.fixed = collate(self.diagnosed)
        self.truth = truth(self.diagnosed, vocabulary, self.fixed)
        self.history: list[dict[str, Any]] = []
        self.diagnostics: Diagnostics = {}
        self.initial: Diagnostics = {}
        self.gradients: dict[str, Any] = {}
        self.best: dict[str, Any] = {"step": 0, "value": None, "state": None}
        self.baseline = torch.tensor(-math.log(len(vocabulary)))
        self.tokens, self.train_seconds = 0, 0.0
        self.began, self.earlier_seconds = time.perf_counter() if began is None else began, 0.0
        self.asked, self._ending = asked, False
        self.calls = [call.model_dump() for call in calls]
        self._counted: Tensor | int = 0
        self._last_loss, self._started = 0.0, False
        self._since = time.perf_counter()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            self.model.parameters(),
            self.recipe.learning_rate,
            betas=(0.9, self.recipe.adam_beta2),
            eps=1e-9,
            fused=True,
        )

    def train_dataloader(self) -> Steps:
        return Steps(
            self.train_data, self.recipe.batch_tokens, self.experiment.seed, self.global_step, self.recipe.steps
        )

    def validates(self, step: int) -> bool:
        """Return True if Lightning validates after a step. The last step is always validated, after training."""
        return step % min(self.recipe.validate_every, self.recipe.steps) == 0

    @property
    def ending(self) -> bool:
        """Return True if training must end after this step. Ranks agree on it when they share the loss."""
        return self._ending if self.trainer.world_size > 1 else self.asked()

    def val_dataloader(self) -> range:
        """One step that validates everything: the batching belongs to `decode`."""
        return range(1)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return batch.to(device) if isinstance(batch, Batch) else batch

    def on_fit_start(self) -> None:
        self.fixed = self.fixed.to(self.device)
        self.truth = {site: slots.to(self.device) for site, slots in self.truth.items()}
        if "start" not in self.gradients and self.trainer.is_global_zero:  # a run that goes on has trained weights
            self.look_at_the_start()

    def look_at_the_start(self) -> None:
        """Diagnose the initial values, step 0: what attention does, and where gradients arrive."""
        self.initial = diagnose(look(self.model, self.fixed), self.fixed, self.truth)
        self._follow_back("start")

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        if not self._started:
            self._started, self._since = True, time.perf_counter()
        own = f":rank:{self.global_rank}" if self.global_rank else ""  # rows of another rank: other draws
        torch.manual_seed(step_seed(self.experiment.seed, self.global_step, own))
        for site, layer, attention in self.model.sites():
            attention.reseed(step_seed(self.experiment.seed, self.global_step, f":{site}:{layer}{own}"))
        rate = self.recipe.learning_rate * factor(self.global_step, self.recipe)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = rate

    def training_step(self, whole: Batch, batch_idx: int) -> Tensor:
        mine = share(whole, self.global_rank, self.trainer.world_size)
        batch = mine.batch
        encoded = self.model.encode(batch.source, batch.mask)
        output = self.model.decode(encoded, batch.given)
        loss = F.cross_entropy(
            output.logits.flatten(0, 1),
            batch.wanted.flatten(),
            ignore_index=PAD,
            label_smoothing=self.recipe.label_smoothing,
        )
        terms = (*encoded.terms, *output.terms)
        loss = mine.tokens * loss + mine.sentences * penalties(terms)
        self._check(loss)
        self._counted = self._counted + (whole.wanted != PAD).sum()  # read at validation: reading waits for a GPU
        return loss + self._sampled(terms, output.logits, mine) if sampling.samples(terms) else loss

    def _sampled(self, terms: tuple[Terms, ...], logits: Tensor, mine: Share) -> Tensor | float:
        """Return the surrogate whose gradient is that of the samples. It is not a loss, so the history omits it."""
        wanted = mine.batch.wanted
        log_p, real = -decode.token_nll(logits.detach(), wanted), wanted != PAD
        added = mine.tokens * sampling.surrogate(terms, log_p, real, self.baseline, self.model.carries)
        # Linear in the batch's mean, so that the ranks' weighted mean is the running mean of the whole batch.
        self.baseline = mean_over_ranks(mine.tokens * sampling.running(self.baseline, log_p, real))
        return added

    def _check(self, loss: Tensor) -> None:
        """Reading the loss waits for a GPU, so there it is read every 20 steps. All ranks see the batch's and agree."""
        if loss.is_cpu or self.global_step % 20 == 0:
            asked = loss.new_tensor(float(self.asked()))
            value, asking = mean_over_ranks(torch.stack((loss.detach(), asked))).tolist()
            self._ending = asking > 0
            if not value == value or abs(value) == float("inf"):
                raise DivergedError(f"the training loss became {value} at step {self.global_step}")
            self._last_loss = value

    def validation_step(self, batch: int, batch_idx: int) -> None:
        self._count()
        problem = self.trainer.strategy.broadcast(self._validated())  # the other ranks wait here
        if problem:
            raise DivergedError(problem)
        self._since = time.perf_counter()

    def _validated(self) -> str | None:
        """Validate, on rank 0; where the loss is no number, a text that says so."""
        if not self.trainer.is_global_zero:
            self.history.append({"step": self.global_step})  # so that all ranks know what has been validated
            return None
        try:
            with torch.autocast(self.device.type, enabled=False):
                self._validate()
        except DivergedError as problem:
            return str(problem)
        return None

    def trained(self) -> tuple[int, float]:
        """Target tokens so far, and seconds in training steps."""
        return self.tokens + int(self._counted), self.train_seconds + time.perf_counter() - self._since

    @property
    def last_loss(self) -> float:
        """The training loss that was read last."""
        return self._last_loss

    def _count(self) -> None:
        """Add what was trained since the last look."""
        now = time.perf_counter()
        self.tokens, self._counted = self.tokens + int(self._counted), 0
        self.train_seconds, self._since = self.train_seconds + now - self._since, now

    def _validate(self) -> None:
        nll = decode.forced_nll(self.model, self.fitting)
        loss = float(nll.sum()) / sum(len(example.target) + 1 for example in self.fitting)
        if not loss == loss:
            raise DivergedError(f"the validation loss became NaN at step {self.global_step}")
        hypotheses = decode.translate(self.model, self.valid_data, self.vocabulary, 1, 0.0)
        references = [example.pair.target for example in self.valid_data]
        found = self.look_at_attention()
        self._gradients_if_due()
        point = {
            "step": self.global_step,
            "tokens": self.tokens,
            "train_loss": self._last_loss,
            "valid_loss": loss,
            "valid_bleu": scoring.bleu(hypotheses, references).value,
            "valid_exact": scoring.exact_match(hypotheses, references).value,
            "lr": self.recipe.learning_rate * factor(self.global_step - 1, self.recipe),
            **found,
        }
        self.history.append(point)
        self._select(point)
        self.report(point)

    def look_at_attention(self) -> dict[str, Any]:
        """Diagnose attention in one pass over the fixed batch, and return the point for the history."""
        observations = look(self.model, self.fixed)
        self.diagnostics = diagnose(observations, self.fixed, self.truth)
        error = gold.validation_error(observations, self.fixed, self.diagnosed, self.vocabulary)
        return {"valid_aer": error, **in_history(self.diagnostics)}

    def _gradients_if_due(self) -> None:
        """Measure gradients at the first validation at or past the middle, and at the last."""
        if self.global_step >= self.recipe.steps:
            self._follow_back("end")
        elif 2 * self.global_step >= self.recipe.steps and "middle" not in self.gradients:
            self._follow_back("middle")

    def _follow_back(self, moment: str) -> None:
        self.gradients[moment] = {"step": self.global_step, **gradients(self.model, self.fixed, self.truth)}

    def _select(self, point: dict[str, Any]) -> None:
        """Keep the weights that the rule prefers; of equals the earlier."""
        match self.recipe.select:
            case "best_valid_bleu":
                value = point["valid_bleu"]
            case "best_valid_loss":
                value = -point["valid_loss"]
            case "last":
                value = float(point["step"])
        if self.best["value"] is None or value > self.best["value"]:
            state = {name: tensor.detach().cpu().clone() for name, tensor in self.model.state_dict().items()}
            self.best = {"step": point["step"], "value": value, "state": state}

    KEPT = (
        "history",
        "diagnostics",
        "initial",
        "gradients",
        "best",
        "tokens",
        "train_seconds",
        "baseline",
        "_last_loss",
    )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._count()
        checkpoint["study"] = {name: getattr(self, name) for name in self.KEPT}
        checkpoint["study"]["calls"] = self.calls
        checkpoint["study"]["earlier_seconds"] = self.earlier_seconds + time.perf_counter() - self.began

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        for name in (*self.KEPT, "earlier_seconds"):
            setattr(self, name, checkpoint["study"][name])
