"""The Python API: `study.train`, `study.load`, `study.results`. Verbs of the command line call the same functions.

pandas, matplotlib and torch are imported when they are used. Functions raise `study.InputError` where the command line
prints its text, and figures are of matplotlib's `Figure`: no window is opened and no backend chosen.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study import records, store
from study.config import Experiment, experiment_from, experiment_id
from study.errors import InputError
from study.records import Record
from study.run_names import find, model_of, names, published, stores, sweeps_of
from study.store import Store

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from study.analysis.comparison import Compared
    from study.analysis.tables import Table
    from study.training.translation import Trained
    from study.training.translation import Translation as Found


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
    from study.sweep.trial import record_of

    declared = experiment(preset, **fields)
    folder = store.runs_folder(runs) / experiment_id(declared)
    say = watch or (lambda line: None)
    if records.state(folder) in ("finished", "diverged"):
        record_of(declared, folder, say)
    else:
        with _threads_kept():
            record_of(declared, folder, say)
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
    from study.sweep.fields import full_name
    from study.sweep.grid import expand

    given: dict[str, Any] = {}
    for name, value in expand(fields).items():
        full = full_name(name)
        if full in given or (full == PRESET and preset is not None):
            raise InputError(f"{full}: expected once, got it twice. Remove one.")
        if full == "out":
            raise InputError(f"out: expected no folder among the fields, got {value!r}. Give it as runs.")
        given[full] = value
    return experiment_from(*([] if preset is None else [{PRESET: preset}]), given)


def load(run: str | Path, *, runs: str | Path | None = None) -> Run:
    """Find a run of your own, or a published one.

    Args:
        run: its folder, its id, a unique part of the id, "SWEEP/NUMBER" such as "quickstart/2", or "last".
        runs: folder of the runs (default: $STUDY_RUNS, else runs). Published runs are found as well.

    Raises:
        InputError: no run fits, several fit, or the record cannot be read.
    """
    return Run(*find(str(run), store.runs_folder(runs)))


def compare(
    models: Iterable[str | Path | Run],
    sentence: str,
    *,
    runs: str | Path | None = None,
    beam: int | None = None,
    site: str = "cross",
    layer: int | None = None,
    head: int | None = None,
) -> Comparison:
    """Translate one sentence with several models, as `study compare` does.

    Args:
        models: runs, or their names as `load` takes them.
        sentence: source text.
        runs: folder of the runs (default: $STUDY_RUNS, else runs).
        beam: beam width (default: as in the test of each run).
        site: attention to read: cross, encoder_self or decoder_self.
        layer: its layer, from 0 (default: the last).
        head: its head, from 0 (default: the mean over heads).

    Raises:
        InputError: see `load` and `Run.translate`, or there is no run.
    """
    found = [model if isinstance(model, Run) else load(model, runs=runs) for model in models]
    if not found:
        raise InputError("models: expected runs, got none. Name one or more.")
    read = [one.translate(sentence, beam=beam, site=site, layer=layer, head=head) for one in found]
    return Comparison(found, read)


def ledger(runs: str | Path | None = None) -> pd.DataFrame:
    """One row for each run, as `study runs` prints them: your own, then the published ones.

    Args:
        runs: folder of the runs (default: $STUDY_RUNS, else runs).
    """
    from study.analysis.ledger import of_stores

    folder = store.runs_folder(runs)
    return of_stores(stores(folder), names(folder))


def results(sweep: str | Path, *, runs: str | Path | None = None) -> Results:
    """Return the results of a sweep: of the published runs, or of runs of your own. Needs no torch.

    Args:
        sweep: name of a published sweep, such as "scaling", or a sweep file.
        runs: folder of runs of your own (default: the published ones).

    Raises:
        InputError: there is no such sweep or folder, or the sweep is not published.
    """
    return Results(str(sweep), published() if runs is None else store.runs_folder(runs))


class Run:
    """One run that has a record."""

    def __init__(self, found: Store, identity: str) -> None:
        self._store = found
        self.id = identity
        """Identity: corpus, family, score of cross-attention, hash of the fields, seed."""
        self.record: Record = found.record(identity)
        """All that is recorded: configuration, scores, learning curve, provenance."""

    @property
    def folder(self) -> Path | None:
        """Folder of the run; None for a published run."""
        path = self._store.folder / self.id
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

    def sentences(self, versus: Run | None = None, split: str | None = None, score: str | None = None) -> pd.DataFrame:
        """One row for each sentence of a split, the worst first, as `study sentences` prints them.

        Args:
            versus: another run on the same corpus; rows are sorted by the difference of scores.
            split: name of a split (default: the first test split).
            score: chrf, bleu, exact, prefix or accuracy (default: chrf, or accuracy for a corpus without sentences).

        Raises:
            InputError: the corpus cannot be read, or a run has no such translations.
        """
        from study.analysis.sentences import sentences

        other = (versus._store, versus.id) if versus else None
        return sentences((self._store, self.id), other, split, score)

    def diff(self, other: Run) -> pd.DataFrame:
        """One row for each field, size and score in which two runs differ."""
        import pandas as pd

        from study.analysis.ledger import differing_fields

        columns = ["section", "field", "first", "second", "difference"]
        return pd.DataFrame(differing_fields(self.record, other.record), columns=columns)

    def plot(self) -> Figure:
        """Return the learning curve and, if the run has one, its attention map."""
        from study.analysis.figures.run import draw_run

        return draw_run(self.record, self._store.attention(self.id))

    def translate(
        self,
        sentence: str,
        *,
        beam: int | None = None,
        site: str = "cross",
        layer: int | None = None,
        head: int | None = None,
    ) -> Translation:
        """Translate a sentence, as `study translate` does.

        Args:
            sentence: source text.
            beam: beam width (default: as in the test of the run).
            site: attention to read: cross, encoder_self or decoder_self.
            layer: its layer, from 0 (default: the last).
            head: its head, from 0 (default: the mean over heads).

        Raises:
            InputError: the run has no model, the sentence is empty or too long, or the model has no such place.
        """
        if beam is not None and (type(beam) is not int or beam < 1):
            raise InputError(f"beam: expected a whole number from 1, got {beam!r}.")
        with _threads_kept():
            from study.training import translation

            return Translation(translation.translate(self._trained, sentence, beam, layer, site, head), self.id)

    @cached_property
    def _trained(self) -> Trained:
        from study.training.translation import read

        return read(model_of(self._store, self.id), self.id)

    def __repr__(self) -> str:
        from study.analysis.run_text import run_line

        return f"<Run {self.id}: {run_line(self.record)}>"

    def _repr_html_(self) -> str:
        import pandas as pd

        from study import metrics

        whole = self.scores[self.scores["subset"].isna() & self.scores["value"].notna()]
        splits, scores = whole["split"].unique(), whole["metric"].unique()
        wide = whole.pivot(index="metric", columns="split", values="value").reindex(index=scores, columns=splits)
        digits = {name: metrics.decimals(f"test/{name}") for name in scores}
        texts = [[format(v, f".{digits[name]}f") if v == v else "" for v in wide.loc[name]] for name in scores]
        wide = pd.DataFrame(texts, [metrics.title(f"test/{name}") for name in scores], splits)
        return f"<p><strong>{escape(self.id)}</strong>: {escape(self.record.status)}</p>\n{wide.to_html()}"


class Translation:
    """A translation and the attention behind it: T target tokens, S source tokens, end-of-sentence counted."""

    def __init__(self, found: Found, model: str) -> None:
        self.text = found.text
        """The translation."""
        self.source, self.target = found.source, found.target
        """Tokens of both sentences. A word that the model does not know has a question mark."""
        self.model = model
        """Identity of the run."""
        self._map = found.attention

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """Attention [T, S], of one head or the mean over heads; None if the slots are no tokens."""
        import numpy as np

        return None if self._map is None else np.asarray(self._map["weights"], dtype=float)

    @property
    def entropy(self) -> float | None:
        """Entropy of the weights, from 0 (one token) to 1 (uniform); None if they are no distributions."""
        from study.attention_map import entropy

        return None if self._map is None else entropy(self._map)

    def plot(self) -> Figure:
        """Return the weights as a heat map.

        Raises:
            InputError: there are none.
        """
        from study.analysis.figures.run import draw_translation

        if self._map is None:
            raise InputError(f"{self.model}: expected attention over source tokens, got none. Choose another run.")
        return draw_translation(self._map, self.model)

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.text)}</p>" + ("" if self._map is None else _picture(self.plot()))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Translation {self.text!r}>"


class Comparison:
    """One sentence by several models."""

    def __init__(self, models: list[Run], translations: list[Translation]) -> None:
        from study.config.words import differing

        self.translations = translations
        """A translation for each model."""
        self.words = differing([model.record.config for model in models])
        """The fields in which each model differs from the others, in words."""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each model: id, differs, translation, entropy."""
        import pandas as pd

        found = zip(self.words, self.translations, strict=True)
        return pd.DataFrame(
            [{"id": t.model, "differs": words, "translation": t.text, "entropy": t.entropy} for words, t in found]
        )

    def plot(self) -> Figure:
        """The attention maps side by side.

        Raises:
            InputError: no model has one.
        """
        from study.analysis.figures.run import draw_translations

        found = zip(self.words, self.translations, strict=True)
        maps = [(t._map, words or t.model) for words, t in found if t._map is not None]
        if not maps:
            raise InputError("runs: expected attention over tokens, got none. Choose other runs.")
        return draw_translations(maps)

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.translations)} models>"

    def _repr_html_(self) -> str:
        there = any(translation._map is not None for translation in self.translations)
        return self.frame.to_html(index=False) + (_picture(self.plot()) if there else "")


class Results:
    """The runs of a sweep, compared with its baseline."""

    def __init__(self, sweep: str, folder: Path) -> None:
        from study.analysis.runs import Runs
        from study.publish.results import Results as Published

        self._runs = Runs(folder, sweeps_of(folder))
        self._spec = self._runs.spec(sweep)
        self.name = self._spec.name
        """Name of the sweep."""
        self.folder = folder
        """Folder of the records."""
        if store.is_results(folder) and self.name not in (known := Published(folder).manifests):
            there = ", ".join(known) or "none"
            raise InputError(f"sweep: expected a published sweep ({there}), got {self.name}. Give runs for your own.")

    @cached_property
    def _compared(self) -> Compared:
        from study.publish.report import compared

        return compared(self._spec, self.folder)

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each declared run: facet, arm, seed, id, state and scores. A run that is missing is a row too."""
        return self._compared.frame

    def table(self) -> Table:
        """Return the comparison table: means, differences to the baseline, intervals. `.frame` has its numbers."""
        return self._compared.table

    def plot(self) -> Figure:
        """Return the figure of the sweep: every run a dot, with the intervals of the table.

        Raises:
            InputError: the sweep asks a question of single models, such as which heads can go.
        """
        from study.analysis.comparison import compares
        from study.analysis.figures.sweep import draw

        if not compares(self._spec):
            raise InputError(
                f"{self.name}: expected a sweep that compares arms, got one of single models. `study figures` draws it."
            )
        return draw(self._compared.facets)

    def verdicts(self, claims: str | Path | None = None) -> Table:
        """Return the verdicts on the claims that this sweep decides. `.frame` has their numbers.

        Args:
            claims: file with claims of your own, which are added to those of the study.

        Raises:
            InputError: a claim that cannot be evaluated, or a record that cannot be used.
        """
        from study.claims import costs, schema
        from study.claims.evaluate import evaluate
        from study.claims.table import table

        files = schema.read_all(None if claims is None else Path(claims))
        wanted = [str(claim.id) for file in files for claim in file.claims if any(map(self._decides, claim.questions))]
        measured = costs.read(self.folder / "benchmarks" if store.is_results(self.folder) else None)
        found = evaluate(files, self._runs, measured, wanted) if wanted else []
        return table([verdict for verdict in found if self._decides(verdict.question)])

    def _decides(self, question: Any) -> bool:
        named = (question.sweep, *question.with_sweeps)
        return any(name is not None and Path(name).stem == self.name for name in named)

    def __repr__(self) -> str:
        return f"<Results of {self.name} in {self.folder}>"

    def _repr_html_(self) -> str:
        return self.table().html()


def _picture(figure: Any) -> str:
    """A figure as an image of a page."""
    content = base64.b64encode(figure._repr_png_()).decode()
    return f'<img src="data:image/png;base64,{content}" style="max-width: 100%">'


@contextmanager
def _threads_kept() -> Iterator[None]:
    """Give torch its number of threads back: small models take one, and the caller's own may want more."""
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
