"""All figures of the study by name, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from study.analysis.agreement import PAIRS
from study.analysis.figures import aer, agreement, heads, lengths, maps, pruning, scaling, style, symmetry, training
from study.analysis.figures.source import Sweep, read_sweep
from study.analysis.runs import Runs
from study.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class NamedFigure:
    """A figure: the sweeps it is drawn from (as many of them as have run), its table, and how that is drawn."""

    name: str
    sweeps: tuple[str, ...]
    points: Callable[[Sequence[Sweep]], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]
    nothing: str
    """Data to name in the message if the table is empty."""


class Drawn(NamedTuple):
    """One figure: a line about it, and its files; none if it could not be drawn."""

    line: str
    paths: Sequence[Path] = ()


FIGURES = (
    NamedFigure("quickstart", ("quickstart",), scaling.points, scaling.draw, "sizes"),
    NamedFigure("scaling", ("scaling",), scaling.points, scaling.draw, "sizes"),
    NamedFigure("training", ("scaling",), training.by_size, training.draw, "histories"),
    NamedFigure("collapse", ("collapse",), training.by_width, training.draw, "histories"),
    NamedFigure("lengths", ("bottleneck",), lengths.points, lengths.draw, "scores by length"),
    NamedFigure("rates", ("learning_rate",), scaling.points_by_rate, scaling.draw_rates, "rates"),
    NamedFigure("symmetry", ("symmetry",), symmetry.points, symmetry.draw, "doses"),
    NamedFigure("heads", ("heads",), heads.points, heads.draw, "several numbers of heads"),
    NamedFigure("pruning", ("pruning",), pruning.points, pruning.draw, "pruning curves"),
    NamedFigure("pruning-multi30k", ("multi30k_pruning",), pruning.points, pruning.draw, "pruning curves"),
    NamedFigure("maps", ("scores",), maps.points, maps.draw, "attention maps"),
    NamedFigure("maps-scaling", ("scaling",), maps.points, maps.draw, "attention maps"),
    *(
        NamedFigure(name, sweeps, agreement.points, agreement.draw, "seed with all arms")
        for name, sweeps in PAIRS.items()
    ),
    NamedFigure("aer", ("scores", "rank", "reach", "normaliser"), aer.points, aer.draw, "alignment error rates"),
)


def chosen(names: Sequence[str]) -> list[NamedFigure]:
    """The figures of these names, or all, in the order of the list.

    Raises:
        InputError: there is no figure of a name.
    """
    known = [figure.name for figure in FIGURES]
    for name in names:
        if name not in known:
            raise InputError(f"no such figure: {name!r}. Choose from {', '.join(known)}.")
    return [figure for figure in FIGURES if not names or figure.name in names]


def draw_all(figures: Sequence[NamedFigure], runs: Runs, out: Path, png: bool = True) -> Iterator[Drawn]:
    """Draw figures from the sweep files and the records of a folder, each as .svg, .png and .csv.

    Raises:
        InputError: a sweep file or record cannot be used, or the folder cannot be written.
    """
    read: dict[str, Sweep | None] = {}
    for figure in figures:
        for name in figure.sweeps:
            if name not in read:
                read[name] = read_sweep(runs.spec(name), runs) if (runs.sweeps / f"{name}.yaml").is_file() else None
        begun = [sweep for name in figure.sweeps if (sweep := read[name]) and sweep.begun]
        table = figure.points(begun) if begun else None
        if table is None:
            yield Drawn(f"{figure.name}: not drawn, since {runs.folder} has no record of {' or '.join(figure.sweeps)}")
        elif table.empty:
            yield Drawn(f"{figure.name}: not drawn, since the records in {runs.folder} have no {figure.nothing}")
        else:
            path = out / figure.name
            try:
                paths = style.write(figure.draw(table), table, path, png)
            except OSError as problem:
                why = f"{out}: cannot be written ({problem.strerror}). Name another folder with --out."
                raise InputError(why) from None
            yield Drawn(
                f"{figure.name}: {path}.{{{','.join(p.suffix[1:] for p in paths)}}}, from {_count(begun)}", paths
            )


def _count(sweeps: Sequence[Sweep]) -> str:
    counts = [(sum(run.record is not None for run in s.runs), len(s.runs), s.spec.name) for s in sweeps]
    return ", ".join(f"{there} of {declared} runs of {name}" for there, declared, name in counts)
