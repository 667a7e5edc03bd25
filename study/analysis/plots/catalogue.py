"""All figures of the study by name, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.analysis import style
from study.analysis.plots import aer, heads, lengths, maps, pruning, rates, scaling, symmetry, training
from study.analysis.plots.source import Sweep, read_sweep
from study.analysis.runs import Runs
from study.errors import InputError
from study.records import write

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Named:
    """A figure: the sweeps it is drawn from (as many of them as have run), its table, and how that is drawn."""

    name: str
    sweeps: tuple[str, ...]
    points: Callable[[Sequence[Sweep]], pd.DataFrame]
    draw: Callable[[Any, pd.DataFrame], Any]
    nothing: str
    """What is missing where runs make an empty table."""


FIGURES = (
    Named("quickstart", ("quickstart",), scaling.points, scaling.draw, "sizes"),
    Named("scaling", ("scaling",), scaling.points, scaling.draw, "sizes"),
    Named("training", ("scaling",), training.by_size, training.draw, "histories"),
    Named("collapse", ("collapse",), training.by_width, training.draw, "histories"),
    Named("lengths", ("bottleneck",), lengths.points, lengths.draw, "scores by length"),
    Named("rates", ("learning_rate",), rates.points, rates.draw, "rates"),
    Named("symmetry", ("symmetry",), symmetry.points, symmetry.draw, "doses"),
    Named("heads", ("heads",), heads.points, heads.draw, "several numbers of heads"),
    Named("pruning", ("pruning",), pruning.points, pruning.draw, "pruning curves"),
    Named("pruning-multi30k", ("multi30k_pruning",), pruning.points, pruning.draw, "pruning curves"),
    Named("maps", ("scores",), maps.points, maps.draw, "attention maps"),
    Named("maps-scaling", ("scaling",), maps.points, maps.draw, "attention maps"),
    Named("aer", ("scores", "rank", "reach", "normaliser"), aer.points, aer.draw, "alignment error rates"),
)


def chosen(names: Sequence[str]) -> list[Named]:
    """The figures of these names, or all, in the order of the list.

    Raises:
        InputError: there is no figure of a name.
    """
    known = [figure.name for figure in FIGURES]
    for name in names:
        if name not in known:
            raise InputError(f"there is no figure {name!r}; the figures are {', '.join(known)}")
    return [figure for figure in FIGURES if not names or figure.name in names]


def draw_all(figures: Sequence[Named], runs: Runs, out: Path) -> Iterator[str]:
    """Draw figures from the sweep files and the records of a folder, each as .svg, .png and .csv; a line about each.

    Raises:
        InputError: a sweep file or record cannot be used, or the folder cannot be written.
    """
    read: dict[str, Sweep | None] = {}
    with style.styled() as plt:
        for figure in figures:
            for name in figure.sweeps:
                if name not in read:
                    read[name] = _read(name, runs)
            begun = [sweep for name in figure.sweeps if (sweep := read[name]) and sweep.begun]
            if not begun:
                yield f"{figure.name}: not drawn, since {runs.folder} has no record of {' or '.join(figure.sweeps)}"
                continue
            table = figure.points(begun)
            if table.empty:
                yield f"{figure.name}: not drawn, since the records in {runs.folder} have no {figure.nothing}"
                continue
            yield f"{figure.name}: {_written(plt, figure, table, out)}, from {_count(begun)}"


def _read(name: str, runs: Runs) -> Sweep | None:
    return read_sweep(runs.spec(name), runs) if (runs.sweeps / f"{name}.yaml").is_file() else None


def _count(sweeps: Sequence[Sweep]) -> str:
    counts = [(sum(run.record is not None for run in s.runs), len(s.runs), s.spec.name) for s in sweeps]
    return ", ".join(f"{there} of {declared} runs of {name}" for there, declared, name in counts)


def _written(plt: Any, figure: Named, table: pd.DataFrame, out: Path) -> str:
    path = out / figure.name
    try:
        write(path.with_name(f"{figure.name}.csv"), table.to_csv(index=False, lineterminator="\n"))
        drawn = figure.draw(plt, table)
        style.save(drawn, path)
    except OSError as problem:
        raise InputError(f"{out}: can't be written ({problem.strerror}); give another folder with --out") from None
    plt.close(drawn)
    return f"{path}.{{svg,png,csv}}"
