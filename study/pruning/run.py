"""A pruning is an experiment: the run that it prunes is the same experiment without it, trained where it is missing.

Its record holds the scores of the pruned model like any other's, and beside them, by `subset`, those of the question.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from study import files, records
from study.config import Experiment, account, experiment_id
from study.config.pruning import CUTTING, Pruning
from study.errors import InputError
from study.models import Translator, build
from study.models.cost import bare, cost_of
from study.pruning import answers
from study.pruning.answers import Answer, EvaluationSetup, Parts
from study.pruning.order import Data, Ranking, gone, rank, shuffled
from study.pruning.surgery import Head, heads_of, mask, remove
from study.records import PARTS, ModelFacts, Record
from study.training import Hooks, Run, train
from study.training.batches import sizes_of
from study.training.checkpoint import Kept, cut, cut_to, load
from study.training.task import initial_model

Hold = Callable[[Path], AbstractContextManager[object]]


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
        return train(experiment, folder, watch)
    hooks: Hooks | None = None
    if records.state(folder) not in ("finished", "diverged"):
        model = _base(experiment, base or folder.parent / experiment_id(_unpruned(experiment)), watch, hold)
        removal = Removal(model, pruning)
        kinds = {"retrain": Retraining, "train_on": Continuation}
        hooks = kinds[pruning.question](removal) if pruning.question in kinds else removal
    record = train(experiment, folder, watch, hooks)
    (folder / PARTS).unlink(missing_ok=True)
    return record


def _unpruned(experiment: Experiment) -> Experiment:
    """Return the run to prune: the same experiment without its pruning, trained for `base_steps` where given."""
    steps = (experiment.pruning and experiment.pruning.base_steps) or experiment.training.steps
    training = experiment.training.model_copy(update={"steps": steps})
    return experiment.model_copy(update={"pruning": None, "training": training})


def _base(experiment: Experiment, folder: Path, watch: Any, hold: Hold) -> Path:
    """The weights of the run to prune."""
    with hold(folder), _by_itself():
        if records.state(folder) not in ("finished", "diverged"):
            watch(f"first the run to prune, {folder.name}")
        record = train(_unpruned(experiment), folder, watch)
    if record.status != "finished":
        raise InputError(f"{folder.name}: expected a run with a model, got one that {record.status}. Choose another.")
    path = folder / "model.pt"
    if not path.is_file():
        raise InputError(f"{path}: expected the model to prune, got no file. Remove the folder to train it again.")
    return path


@contextmanager
def _by_itself() -> Iterator[None]:
    """The run to prune is no trial of the sweep that wants it pruned."""
    taken = {name: os.environ.pop(name) for name in account.OF_A_RUN if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(taken)


class Removal(Hooks):
    """Heads are taken from the model of another run, and what is left is tested. Nothing is trained but gates.

    Args:
        base: the trained model's file.
        pruning: which heads, and what is asked.
    """

    def __init__(self, base: Path, pruning: Pruning) -> None:
        self.base, self.pruning = base, pruning
        self.ranking = Ranking([], {})
        self.answer = Answer([], {})

    def model(self, run: Run) -> Translator:
        return self.trained(run).eval()

    def trained(self, run: Run) -> Translator:
        """Return the model to prune, on the CPU.

        Raises:
            InputError: the file is not that model.
        """
        model = build(run.experiment.model, len(run.data.vocabulary), run.experiment.seed, run.data.lengths)
        try:
            model.load_state_dict(load(self.base)["state"])
        except Exception:  # What a file that is something else can raise has no end.
            raise InputError(
                f"{self.base}: expected the model of {experiment_id(_unpruned(run.experiment))}, got another file. "
                "Remove its folder to train it again."
            ) from None
        return model

    def kept(self, run: Run) -> Kept | None:
        parts = self._parts(run)
        return Kept(len(parts.known), parts.calls) if parts.known else None

    def _parts(self, run: Run) -> Parts:
        digest = hashlib.sha256(files.read(self.base, below=self.base.parent)).hexdigest()
        return Parts(run.folder / PARTS, digest, run.progress.write)

    def rank(self, run: Run, model: Translator) -> Ranking:
        """Return the order in which heads go, where the question has one."""
        if self.pruning.question not in CUTTING:
            return Ranking([], {})
        started, experiment = time.perf_counter(), run.experiment
        run.watch(f"ranking heads by {self.pruning.order}")
        data = Data(run.data.train, run.data.valid, experiment.training.batch_tokens, experiment.seed)
        ranking = rank(model.to(run.device).eval(), self.pruning, data)
        first = ", ".join(map(str, ranking.heads[:3]))
        run.watch(f"order {self.pruning.order} in {time.perf_counter() - started:.1f} s; first to go: {first}")
        return ranking

    def fit(self, run: Run) -> None:
        """Answer the question on the whole model, then take the heads. Nothing is fitted."""
        run.task.best = {"step": 0, "value": None, "state": None}
        parts = self._parts(run)
        if parts.known:
            run.watch(f"continuing: {len(parts.known)} parts are known from an earlier call")
        parts.begin(run.calls)
        self.ranking = self.rank(run, run.model)
        split = run.data.corpus.tests[0]
        test = run.data.examples(split)
        setup = EvaluationSetup(
            run.model, run.data.vocabulary, run.data.valid, test, split, run.experiment.decoding, parts
        )
        match self.pruning.question:
            case "curve":
                among, seed = heads_of(run.model, self.pruning.site), run.experiment.seed
                draws = [shuffled(among, seed, draw) for draw in range(self.pruning.draws or 0)]
                self.answer = answers.curve(setup, draws or [self.ranking.heads], run.watch)
            case "each_head":
                self.answer = answers.each_head(setup, self.pruning.site, run.watch)
            case "best_head":
                self.answer = answers.best_head(setup, self.pruning.site, run.watch)
        remove(run.model, self.gone())

    def gone(self) -> list[Head]:
        """Return the heads that are removed."""
        return gone(self.ranking.heads, self.pruning.fraction or 0.0)

    def finish(self, run: Run, record: Record) -> Record:
        """Add the sizes of the remaining model, and the answer to the question."""
        model = bare(run.experiment.model, len(run.data.vocabulary), run.data.lengths)
        cut_to(model, cut(run.model))
        cost = cost_of(model, sizes_of(run.data.train, len(run.data.vocabulary)))
        facts = ModelFacts(
            parameters=cost.parameters,
            parameters_attention=cost.parameters_attention,
            flops_per_token=cost.flops_per_token,
        )
        importance = {str(head): value for head, value in self.ranking.importance.items()}
        found = {
            "order": [str(head) for head in self.ranking.heads],
            "importance": importance,
            "removed": [str(head) for head in self.gone()],
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
        """Return provenance of the weights: that of the run from which they are taken."""
        trained = records.read(self.base.parent / "record.json")
        return {"history": trained.history, "selection": trained.selection}


class Retraining(Hooks):
    """The mask that was found on the trained model, put on the initial values, which are then trained as its were.

    Args:
        removal: which heads, of which model.
    """

    def __init__(self, removal: Removal) -> None:
        self.removal = removal

    def model(self, run: Run) -> Translator:
        if not self.removal.ranking.heads:  # another rank gets it with these hooks
            self.removal.ranking = self.removal.rank(run, self.removal.trained(run))
        model = initial_model(run.experiment, run.data)
        remove(model, self.removal.gone())
        return model

    def finish(self, run: Run, record: Record) -> Record:
        return self.removal.finish(run, record)


class Continuation(Hooks):
    """The trained model, trained on while its heads go: the first at once, the last halfway (Voita et al. 2019).

    The order of removal is found before. Learning rate and Adam start again, as in any training. A validation selects
    only once all heads are gone.

    Args:
        removal: which heads, of which model.
    """

    def __init__(self, removal: Removal) -> None:
        self.removal = removal
        self._masked = -1

    def model(self, run: Run) -> Translator:
        if not self.removal.ranking.heads:
            self.removal.ranking = self.removal.rank(run, self.removal.trained(run))
        return self.removal.trained(run).train()

    def fit(self, run: Run) -> None:
        run.task.before_step = partial(self.mask, run)
        run.fit()
        mask(run.model, ())
        remove(run.model, self.removal.gone())

    def mask(self, run: Run, step: int) -> None:
        """Mask the heads that are gone by this update, counted from 0."""
        heads, steps = self.removal.gone(), run.experiment.training.steps
        count = gone_by(step, steps, len(heads))
        if count == len(heads) and (step == 0 or gone_by(step - 1, steps, len(heads)) < count):
            run.task.best = {"step": 0, "value": None, "state": None}
        if count != self._masked:
            mask(run.model, heads[:count])
            self._masked = count

    def finish(self, run: Run, record: Record) -> Record:
        return self.removal.finish(run, record)


def gone_by(step: int, steps: int, heads: int) -> int:
    """Return how many of the heads to remove are gone at an update, counted from 0: all from the half of `steps` on."""
    return min(heads, 1 + 2 * step * heads // steps)
