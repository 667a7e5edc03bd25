"""A pruning is an experiment: the run that it prunes is the same experiment without it, trained where it is missing.

Its record holds the scores of the pruned model like any other's, and beside them, by `subset`, those of the question.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from study import records
from study.config import Experiment, experiment_id
from study.config.pruning import CUTTING, Pruning
from study.errors import InputError
from study.models import Translator, build
from study.models.cost import bare, cost_of
from study.pruning import answers
from study.pruning.answers import Answer, Bench
from study.pruning.order import Data, Ranking, gone, rank, shuffled
from study.pruning.surgery import cut_to, heads_of, remove
from study.records import ModelFacts, Record
from study.training import run as training
from study.training.batches import examples
from study.training.checkpoint import cut
from study.training.evaluate import Evaluation, evaluate
from study.training.sizes import sizes_of

Hold = Callable[[Path], AbstractContextManager[object]]
OF_A_TRIAL = ("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH")
"""What says to W&B which run this process is."""


def run(
    experiment: Experiment, folder: Path, watch: Any = print, hold: Hold = nullcontext, base: Path | None = None
) -> Record:
    """Any experiment, pruned or not: trained, tested, recorded. What is done already is not done again.

    Args:
        experiment: what to run.
        folder: its own folder, named by the experiment's id.
        watch: called with a line of text now and then.
        hold: holds the folder of another run, the one to prune, against other processes.
        base: folder of the run to prune (default: beside `folder`, by its id; trained if it is missing).

    Raises:
        InputError: the data, the device or a folder cannot be used, or there is no model to prune.
    """
    pruning = experiment.pruning
    if pruning is None:
        return training.run(experiment, folder, watch)
    make: Any = None
    if records.state(folder) not in ("finished", "diverged"):
        model = _base(experiment, base or folder.parent / experiment_id(_unpruned(experiment)), watch, hold)
        make = partial(_Retrained if pruning.question == "retrain" else _Pruned, base=model)
    return training.run(experiment, folder, watch, make)


def _unpruned(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"pruning": None})


def _base(experiment: Experiment, folder: Path, watch: Any, hold: Hold) -> Path:
    """The weights of the run to prune."""
    with hold(folder), _by_itself():
        if records.state(folder) not in ("finished", "diverged"):
            watch(f"first the run to prune, {folder.name}")
        record = training.run(_unpruned(experiment), folder, watch)
    if record.status != "finished":
        raise InputError(f"{folder.name}: this run {record.status}, so there is no model to prune; choose another")
    path = folder / "model.pt"
    if not path.is_file():
        raise InputError(f"{path}: absent, so there is no model to prune; remove the folder to train it again")
    return path


@contextmanager
def _by_itself() -> Iterator[None]:
    """The run to prune is no trial of the sweep that wants it pruned."""
    taken = {name: os.environ.pop(name) for name in OF_A_TRIAL if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)


class _Pruned(training._Run):
    """Heads are taken from the model of another run, and what is left is tested. Nothing is trained but gates."""

    def __init__(self, experiment: Experiment, folder: Path, watch: Any, base: Path) -> None:
        self.base = base
        assert experiment.pruning is not None
        self.pruning: Pruning = experiment.pruning
        self.ranking = Ranking([], {})
        self.answer = Answer([], {})
        super().__init__(experiment, folder, watch)

    def _model(self) -> Translator:
        return self._trained().eval()

    def _trained(self) -> Translator:
        """The model to prune, on the CPU."""
        model = build(self.experiment.model, len(self.vocabulary), self.experiment.seed, self.lengths)
        try:
            model.load_state_dict(torch.load(self.base, map_location="cpu", weights_only=True)["state"])
        except Exception:  # What a file that is something else can raise has no end.
            raise InputError(
                f"{self.base}: not the model of {experiment_id(_unpruned(self.experiment))}; remove its folder to "
                "train it again"
            ) from None
        return model

    def _rank(self, model: Translator) -> Ranking:
        if self.pruning.question not in CUTTING:
            return Ranking([], {})
        started, experiment = time.perf_counter(), self.experiment
        data = Data(self.train, self.valid, experiment.training.batch_tokens, experiment.seed)
        ranking = rank(model.to(self.device).eval(), self.pruning, data)
        said = ", ".join(map(str, ranking.heads[:3]))
        self.watch(f"order {self.pruning.order} in {time.perf_counter() - started:.1f} s; first to go: {said}")
        return ranking

    def _fit(self) -> None:
        """Nothing is fitted: the question is answered on the whole model, then the heads go."""
        self.task.best = {"step": 0, "value": None, "state": None}
        self.ranking = self._rank(self.model)
        split = self.corpus.tests[0]
        test = examples(self.corpus.splits[split], self.vocabulary)
        bench = Bench(self.model, self.vocabulary, self.valid, test, split, self.experiment.decoding)
        match self.pruning.question:
            case "curve":
                among, seed = heads_of(self.model, self.pruning.site), self.experiment.seed
                draws = [shuffled(among, seed, draw) for draw in range(self.pruning.draws or 0)]
                self.answer = answers.curve(bench, draws or [self.ranking.heads], self.watch)
            case "each_head":
                self.answer = answers.each_head(bench, self.pruning.site, self.watch)
            case "best_head":
                self.answer = answers.best_head(bench, self.pruning.site, self.watch)
        remove(self.model, self._gone())

    def _gone(self) -> list[Any]:
        return gone(self.ranking.heads, self.pruning.fraction or 0.0)

    def _evaluate(self) -> Evaluation:
        self.model.to(self.device).eval()
        self.watch(f"testing on {', '.join(['valid', *self.corpus.tests])}")
        return evaluate(self.experiment, self.model, self.vocabulary, self.corpus, self.valid)

    def _record(self, *args: Any, **options: Any) -> Record:
        """With the sizes of what is left, and what was found."""
        record = super()._record(*args, **options)
        model = bare(self.experiment.model, len(self.vocabulary), self.lengths)
        cut_to(model, cut(self.model))
        cost = cost_of(model, sizes_of(self.train, len(self.vocabulary)))
        facts = ModelFacts(
            parameters=cost.parameters,
            parameters_attention=cost.parameters_attention,
            flops_per_token=cost.flops_per_token,
        )
        importance = {str(head): value for head, value in self.ranking.importance.items()}
        found = {
            "order": [str(head) for head in self.ranking.heads],
            "importance": importance,
            "removed": [str(head) for head in self._gone()],
            **self.answer.details,
        }
        return record.model_copy(
            update={
                "model": facts,
                **({} if record.history else self._training()),
                "scores": [*record.scores, *self.answer.scores],
                "diagnostics": {**record.diagnostics, "pruning": found},
            }
        )

    def _training(self) -> dict[str, Any]:
        """How the weights came to be: in the run that they are taken from."""
        trained = records.read(self.base.parent / "record.json")
        return {"history": trained.history, "selection": trained.selection}


class _Retrained(_Pruned):
    """The mask that was found on the trained model, put on the initial values, which are then trained as its were."""

    def _model(self) -> Translator:
        self.ranking = self._rank(self._trained())
        model = training._Run._model(self)
        remove(model, self._gone())
        return model

    def _fit(self) -> None:
        training._Run._fit(self)

    def _evaluate(self) -> Evaluation:
        return training._Run._evaluate(self)
