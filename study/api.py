"""The Python API: `study.train`, `study.load`, `study.runs` and others. Verbs call the same functions.

pandas, matplotlib and torch are imported when they are used. Functions raise `study.InputError` where the command line
prints its text, and figures are of matplotlib's `Figure`: no window is opened and no backend chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from study import attention_map
from study.config import Experiment, experiment_from, experiment_id, plugins
from study.errors import InputError
from study.folders import results_folder, runs_folder, sweeps_of
from study.store.find import find, model_of, stores
from study.store.folder import Store
from study.store.records import Record

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from study.analysis.tables import Table
    from study.training.translation import Trained

D = tuple(2**power for power in range(11))
"""Numbers of terms of a dot product: 1 to 1,024."""


def train(
    preset: str | None = None,
    /,
    *,
    runs: str | Path | None = None,
    watch: Callable[[str], object] | None = print,
    **fields: Any,
) -> Run:
    """Train, test and record one experiment in this process, as `study train` does.

    A run that has a record is not trained again, and an interrupted one continues. Its identity is that of the same
    fields on the command line.

    Args:
        preset: a published model, such as "luong2015_general"; the fields lie over its own.
        runs: folder of the runs (default: $STUDY_RUNS, else runs).
        watch: called with a line of text now and then; None: nothing is printed.
        fields: fields of the experiment: names as in the arms of sweep files (`scale="none"`, `lr=1e-3`), dotted names
            (`**{"model.attention.scale": "none"}`) or sections (`model={"width": 32}`).

    Returns:
        The run. Its `record.status` is finished, diverged or failed.

    Raises:
        InputError: a field or value that no experiment takes, or data, a device or a folder that cannot be used.
    """
    from study.engine.trial import record_of

    declared = experiment(preset, **fields)
    folder = runs_folder(runs) / experiment_id(declared)
    with _threads_kept(), nullcontext() if declared.trainer.devices == 1 else _script_hidden():
        record_of(declared, folder, watch or (lambda line: None))
    return Run(Store(folder.parent), folder.name)


def experiment(preset: str | None = None, /, **fields: Any) -> Experiment:
    """Declare an experiment, for `Task` and `DataModule`.

    Args:
        preset: a published model, such as "luong2015_general"; the fields lie over its own.
        fields: fields of the experiment, as `train` takes them.

    Raises:
        InputError: a field or value that no experiment takes.
    """
    from study.config.overrides import PRESET
    from study.sweep.fields import expand, full_name

    values = {}
    for name, value in expand(fields).items():
        full = full_name(name)
        if full in values or (full == PRESET and preset is not None):
            raise InputError(f"{full}: expected once, got it twice. Remove one.")
        if full == "out":
            raise InputError(f"out: expected no folder among the fields, got {value!r}. Give it as runs.")
        values[full] = value
    plugins.allow(values.values())
    return experiment_from(*([] if preset is None else [{PRESET: preset}]), values)


def load(run: str | Path, *, runs: str | Path | None = None) -> Run:
    """Find a run of your own, or a published one.

    Args:
        run: its folder, its id, a unique part of the id, "SWEEP/NUMBER" such as "quickstart/2", or "last".
        runs: folder of the runs (default: $STUDY_RUNS, else runs). Published runs are found as well.

    Raises:
        InputError: no run fits, several fit, or the record cannot be read.
    """
    return Run(*find(str(run), runs_folder(runs)))


def compare(
    models: Iterable[str | Path | Run],
    sentence: str | None = None,
    *,
    runs: str | Path | None = None,
    beam: int | None = None,
    site: str | None = None,
    layer: int | None = None,
    head: int | None = None,
) -> pd.DataFrame:
    """Return what differs between runs, or their translations of a sentence, as `study compare` prints them.

    Args:
        models: runs, or their names as `load` takes them.
        sentence: source text; None: the runs are compared by their records, without torch.
        runs: folder of the runs (default: $STUDY_RUNS, else runs).
        beam: beam width (default: as in the test of each run).
        site: attention to read: cross, encoder_self, decoder_self or joint (default: cross, or joint).
        layer: its layer, from 0 (default: the last).
        head: its head, from 0 (default: the mean over heads).

    Returns:
        Without a sentence: section, field, one column for each run and, of two runs, difference. With one: id, differs
        (the fields in which the model differs from the others, in words), text, entropy, source, target, weights.

    Raises:
        InputError: see `load` and `Run.translate`, or there is no run.
    """
    import pandas as pd

    chosen = [model if isinstance(model, Run) else load(model, runs=runs) for model in models]
    if not chosen:
        raise InputError("models: expected runs, got none. Name one or more.")
    if sentence is None:
        from study.analysis.ledger import differences

        ids = [run.id for run in chosen]  # a run and its rerun have one id
        titles = [run.id if ids.count(run.id) == 1 else run.store.where(run.id) for run in chosen]
        return differences({name: run.store.tree(run.id) for name, run in zip(titles, chosen, strict=True)})
    from study.config.words import differing

    made = [run.translate(sentence, beam=beam, site=site, layer=layer, head=head) for run in chosen]
    table = pd.DataFrame(
        {"id": [run.id for run in chosen], "differs": differing([run.record.config for run in chosen])}
    )
    names = ("text", "entropy", "source", "target", "weights")
    return table.assign(**{name: [getattr(run, name) for run in made] for name in names})


def runs(condition: str | None = None, *, runs: str | Path | None = None) -> pd.DataFrame:
    """Return one row for each run, as `study ls runs` prints them: your own, then the published ones.

    Args:
        condition: which runs, such as `scale == "none" and exact < 50`; see `study ls --help` (default: all).
        runs: folder of the runs (default: $STUDY_RUNS, else runs).

    Raises:
        InputError: no such condition, or a published table cannot be read.
    """
    from study.analysis import ledger

    table = ledger.table(stores(runs_folder(runs)))
    return table if condition is None else ledger.query(table, condition)[0].reset_index(drop=True)


def results(*sweeps: str | Path, runs: str | Path | None = None) -> Results:
    """Return the results of a sweep: of the published runs, or of runs of your own. Needs no torch.

    Args:
        sweeps: name of a published sweep, such as "scaling", or a sweep file. Several make one table and one figure.
        runs: folder of runs of your own (default: the published ones).

    Raises:
        InputError: there is no such sweep or folder, or the sweep is not published.
    """
    return Results(list(map(str, sweeps)), results_folder() if runs is None else runs_folder(runs))


def verdicts(
    *names: int | str, claims: str | Path | None = None, runs: str | Path | None = None, contrasts: bool = False
) -> pd.DataFrame:
    """Return the verdicts on claims, one row for each question, with the columns of `results/tables/contrasts.csv`.

    Args:
        names: numbers or names of claims (default: all).
        claims: file with claims of your own, which are added to those of the study.
        runs: folder of runs of your own (default: the published ones).
        contrasts: one row for each contrast instead.

    Raises:
        InputError: a claim that is not there or cannot be evaluated, or a record that cannot be used.
    """
    from study.analysis.runs import Runs
    from study.claims import schema, table
    from study.claims.evaluate import evaluate

    folder = results_folder() if runs is None else runs_folder(runs)
    files = schema.read_all(None if claims is None else Path(claims))
    findings = evaluate(files, Runs(folder, sweeps_of(folder)), [str(name) for name in names])
    frame = table.contrasts(findings)
    return frame if contrasts else frame[frame["decides"]].reset_index(drop=True)


def softmax(d: Sequence[int] = D, slots: int = 10) -> Figure:
    """Draw how the softmax saturates, and how its gradient vanishes, for dot products with 1/√d and unscaled.

    a = softmax(z) [S], with z_j = q·k_j/√d or q·k_j. Entries of q [d] and k [S, d] are independent standard normals, so
    an unscaled z_j has standard deviation √d. The Jacobian is ∂a_i/∂z_j = a_i (δ_ij − a_j) [S, S]; its panel shows the
    sum of its absolute values, 2 (1 − Σ a_i²), which is 0 if one slot has all the weight. Computed in float64 from
    seeded draws; needs no torch and no run.

    Args:
        d: numbers of terms of the dot product.
        slots: number of keys S.

    Raises:
        InputError: d is empty or has a number below 1 or above a million, or slots is not from 2 to 256.
    """
    from study.analysis.figures import softmax as figure

    if not d or not all(1 <= width <= 10**6 for width in d):
        raise InputError(f"d: expected whole numbers from 1 to 1,000,000, got {list(d)}. Name one or more.")
    if not 2 <= slots <= 256:
        raise InputError(f"slots: expected a whole number from 2 to 256, got {slots}.")
    return figure.draw(figure.points(d, slots), slots)


class Run:
    """One run that has a record.

    Attributes:
        store: the folder of runs that has it.
        id: identity: corpus, family, score of cross-attention or of site joint, hash of the fields, seed.
        record: all that is recorded: configuration, scores, learning curve, provenance.
    """

    def __init__(self, found: Store, identity: str) -> None:
        self.store = found
        self.id = identity
        self.record: Record = found.record(identity)

    @property
    def folder(self) -> Path | None:
        """Folder of the run; None for a published run."""
        path = self.store.folder / self.id
        return path if path.is_dir() else None

    @cached_property
    def scores(self) -> pd.DataFrame:
        """One row for each score: split, metric, subset (empty: the whole split), value, n, signature."""
        import pandas as pd

        columns = ["split", "metric", "subset", "value", "n", "signature"]
        return pd.DataFrame([score.model_dump(include=set(columns)) for score in self.record.scores], columns=columns)

    @cached_property
    def history(self) -> pd.DataFrame:
        """One row for each validation: step, losses, BLEU, learning rate; `diagnostics.cross.entropy` and others."""
        import pandas as pd

        return pd.json_normalize(self.record.history)

    def sentences(
        self,
        versus: str | Path | Run | None = None,
        split: str | None = None,
        score: str | None = None,
        data_folder: str | Path | None = None,
    ) -> pd.DataFrame:
        """One row for each sentence of a split, the worst first, as `study show --sentences` prints them.

        Args:
            versus: another run on the same corpus, or its name; rows are sorted by the difference of scores.
            split: name of a split (default: the first test split).
            score: chrf, bleu, exact, prefix or accuracy (default: chrf, or accuracy for a corpus without sentences).
            data_folder: folder of the text, for a run on text of your own (default: $STUDY_FILES).

        Raises:
            InputError: the corpus cannot be read, or a run has no such translations.
        """
        from study.analysis.sentences import sentences

        folder = None if self.store.published else self.store.folder
        second = load(versus, runs=folder) if isinstance(versus, str | Path) else versus
        text = None if data_folder is None else Path(data_folder)
        return sentences((self.store, self.id), (second.store, second.id) if second else None, split, score, text)

    def plot(self) -> Figure:
        """Return the learning curve and, if the run has one, its attention map."""
        from study.analysis.figures.run import draw_run

        return draw_run(self.record, self.store.attention(self.id))

    @cached_property
    def maps(self) -> list[dict[str, Any]]:
        """The attention map of one sentence at each validation: `step`, `source`, `target`, `weights` [T, S].

        Raises:
            InputError: the run is older and has one map alone.
        """
        return self.store.learning(self.id)

    def plot_maps(self, *others: str | Path | Run, panels: int = 16) -> Figure:
        """Return the attention maps of training as a strip: a panel for each validation, a row for each run.

        Args:
            others: further runs, or their names, for rows below. Beside a row stand the fields in which it differs.
            panels: most panels of a row. Of more validations evenly spaced ones are drawn, the first and the last too.

        Raises:
            InputError: no run fits a name, a run is older and has one map alone, or panels is below 1.
        """
        from study.analysis.figures.run import draw_maps

        if panels < 1:
            raise InputError(f"panels: expected a whole number from 1, got {panels}.")
        return draw_maps(self._strips(others), panels)

    def animate_maps(self, file: str | Path, *others: str | Path | Run) -> None:
        """Write the attention maps of training as an animated GIF, those of several runs side by side.

        Raises:
            InputError: no run fits a name, or a run is older and has one map alone.
            OSError: the file cannot be written.
        """
        from study.analysis.figures.run import animate_maps

        animate_maps(self._strips(others), Path(file))

    def _strips(self, others: Sequence[str | Path | Run]) -> list[tuple[list[dict[str, Any]], str]]:
        """Return the maps of this run and of others, each with the words that tell it apart."""
        from study.config.words import differing

        below = None if self.store.published else self.store.folder
        runs = [self, *(run if isinstance(run, Run) else load(run, runs=below) for run in others)]
        if empty := [run.id for run in runs if not run.maps]:
            raise InputError(f"{empty[0]}: expected maps of the validations, got an empty file. Choose another run.")
        words = differing([run.record.config for run in runs]) if others else [self.id]
        return [(run.maps, text or run.id) for run, text in zip(runs, words, strict=True)]

    def translate(
        self,
        sentence: str,
        *,
        beam: int | None = None,
        site: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> Translation:
        """Translate a sentence, as `study translate` does.

        Args:
            sentence: source text.
            beam: beam width (default: as in the test of the run).
            site: attention to read: cross, encoder_self, decoder_self or joint (default: cross, or joint).
            layer: its layer, from 0 (default: the last).
            head: its head, from 0 (default: the mean over heads).

        Raises:
            InputError: the run has no model, the sentence is empty or too long, or the model has no such place.
        """
        with _threads_kept():
            from study.training import translation

            translated = translation.translate(self.trained, sentence, beam, layer, site, head)
        return Translation(translated.text, translated.source, translated.target, translated.attention, self.id)

    def align(
        self,
        pairs: Iterable[tuple[str, str]] | str | None = None,
        *,
        layer: int | None = None,
        head: int | None = None,
    ) -> list[set[tuple[int, int]]]:
        """Link the words of sentence pairs by cross-attention, as `study translate --align` does.

        Args:
            pairs: source and target sentences, or a split of the run's corpus (default: its first test split).
            layer: its layer, from 0 (default: the one with the lowest alignment error on validation, else the last).
            head: its head, from 0 (default: the mean over heads).

        Returns:
            Links of each pair: source word and target word, both from 0.

        Raises:
            InputError: the run has no model, or its memory no source tokens, or there is no such split or place.
        """
        with _threads_kept():
            from study.training.translation import align

            return align(self.trained, pairs, layer, head)[1]

    @cached_property
    def trained(self) -> Trained:
        """The trained model with its vocabulary and experiment.

        Raises:
            InputError: the run has no model.
        """
        from study.training.translation import read

        return read(model_of(self.store, self.id), self.id)

    def __repr__(self) -> str:
        from study.analysis.run_text import run_line

        return f"<Run {self.id}: {run_line(self.record)}>"


@dataclass(frozen=True, repr=False)
class Translation(attention_map.Translation):
    """A translation of a run, and the attention behind it.

    Attributes:
        model: identity of the run.
    """

    model: str

    def plot(self, *others: Translation) -> Figure:
        """Return the weights as a heat map, beside those of other translations.

        Raises:
            InputError: one has none.
        """
        from study.analysis.figures.run import draw_translations

        maps = [
            (translation.attention, translation.model)
            for translation in (self, *others)
            if translation.attention is not None
        ]
        if len(maps) <= len(others):
            raise InputError("plot: expected attention over source tokens, got none. Choose another run.")
        return draw_translations(maps)


class Results:
    """The runs of a sweep, or of several, compared with its baseline.

    Attributes:
        name: name of the sweep.
        folder: folder of the records.
        frame: one row for each declared run, the missing ones too: facet, arm, seed, id, state and scores.
    """

    def __init__(self, sweeps: Sequence[str], folder: Path) -> None:
        from study.analysis.report import compared, together
        from study.analysis.runs import Runs

        if not sweeps:
            raise InputError("sweeps: expected names of sweeps, got none. Name one or more.")
        runs = Runs(folder, sweeps_of(folder))
        self._specs = [runs.spec(sweep) for sweep in sweeps]
        self.name = ", ".join(spec.name for spec in self._specs)
        self.folder = folder
        self._compared = together(self._specs, runs) if len(sweeps) > 1 else compared(self._specs[0], runs)
        self.frame = self._compared.frame

    def table(self) -> Table:
        """Return the comparison table: means, differences to the baseline, intervals. `.frame` has its numbers."""
        return self._compared.table

    def plot(self) -> Figure:
        """Return the figure of the sweep: every run a dot, with the intervals of the table.

        Raises:
            InputError: the sweep asks a question of single models, such as which heads can go.
        """
        from study.analysis.report import figure

        return figure(self._specs, self._compared)

    def _repr_markdown_(self) -> str:
        return self.table().markdown()


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Keep processes of other devices from running the caller's script again: it may have no main guard, or no file."""
    script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextmanager
def _threads_kept() -> Iterator[None]:
    """Give torch its number of threads back: small models take one, and the caller's own may want more."""
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
