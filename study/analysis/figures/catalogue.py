"""All figures of the study by name, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from study.analysis.agreement import PAIRS
from study.analysis.figures import agreement, drawings, findings, points, style
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
    points: Callable[..., pd.DataFrame]
    """Table of the figure, from the runs and the sweeps that have run."""
    draw: Callable[[pd.DataFrame], Figure]


class Drawn(NamedTuple):
    """One figure: a line about it, and its files; none if it could not be drawn."""

    line: str
    paths: Sequence[Path] = ()


FIGURES = (
    NamedFigure("scale", ("scale_parts", "scaling"), findings.scale, findings.draw_scale),
    NamedFigure("lengths", ("bottleneck",), points.lengths, drawings.lengths),
    NamedFigure("pruning", ("pruning",), points.pruning, drawings.pruning),
    NamedFigure("transfer", PAIRS["transfer"], agreement.points, agreement.draw),
    NamedFigure("longer", PAIRS["longer"], agreement.points, findings.draw_fading),
    NamedFigure("aer", tuple(points.ALIGNED), points.aer, drawings.aer),
)


def chosen(names: Sequence[str]) -> list[NamedFigure]:
    """The figures of these names, or all, in the order of the list.

    Raises:
        InputError: there is no figure of a name.
    """
    known = {figure.name: figure for figure in FIGURES}
    for name in names:
        if name not in known:
            raise InputError(f"no such figure: {name!r}. Choose from {', '.join(known)}.")
    return [figure for figure in FIGURES if not names or figure.name in names]


def draw_all(figures: Sequence[NamedFigure], runs: Runs, out: Path, png: bool = True) -> Iterator[Drawn]:
    """Draw figures from the sweep files and the records of a folder, each as .svg, .png and .csv.

    Raises:
        InputError: a sweep file or record cannot be used, or the folder cannot be written.
    """
    for figure in figures:
        specs = [runs.spec(name) for name in figure.sweeps if (runs.sweeps / f"{name}.yaml").is_file()]
        specs = [spec for spec in specs if runs.store and any(str(cell.id) in runs.store for cell in spec.runnable)]
        table = figure.points(runs, *specs) if specs else None
        if table is None or table.empty:
            lacking = f"of {' or '.join(figure.sweeps)}" if table is None else "with the scores that it needs"
            yield Drawn(f"{figure.name}: not drawn, since {runs.folder} has no record {lacking}")
            continue
        try:
            paths = style.write(figure.draw(table), table, out / figure.name, png)
        except OSError as problem:
            why = f"{out}: cannot be written ({problem.strerror}). Name another folder with --out."
            raise InputError(why) from None
        yield Drawn(f"{figure.name}: {out / figure.name}.{{{','.join(p.suffix[1:] for p in paths)}}}", paths)
