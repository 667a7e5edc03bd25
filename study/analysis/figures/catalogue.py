"""All figures of the study by name, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from study.analysis.agreement import PAIRS
from study.analysis.figures import agreement, drawings, points, style
from study.analysis.runs import Runs
from study.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class NamedFigure(NamedTuple):
    """A figure: the sweeps it is drawn from (as many of them as have run), its table, and how that is drawn."""

    sweeps: Sequence[str]
    points: Callable[..., pd.DataFrame]
    """Table of the figure, from the runs and the sweeps that have run."""
    draw: Callable[[pd.DataFrame], Figure]


class Drawn(NamedTuple):
    """One figure: a line about it, and its files; none if it could not be drawn."""

    line: str
    paths: Sequence[Path] = ()


FIGURES = {
    "scale": NamedFigure(("scale_parts", "scaling"), points.scale, drawings.scale),
    "lengths": NamedFigure(("bottleneck",), points.lengths, drawings.lengths),
    "pruning": NamedFigure(("pruning",), points.pruning, drawings.pruning),
    "transfer": NamedFigure(PAIRS["transfer"], agreement.points, agreement.draw),
    "longer": NamedFigure(PAIRS["longer"], agreement.points, drawings.fading),
}


def draw_all(
    runs: Runs, out: Path, names: Collection[str] = (), only: Collection[str] | None = None, png: bool = True
) -> Iterator[Drawn]:
    """Draw figures from the sweep files and the records of a folder, each as .svg, .png and .csv.

    Args:
        runs: the runs.
        out: folder of the figures.
        names: which figures (default: all).
        only: sweeps that may be drawn (default: all that have run).
        png: write PNG, too.

    Raises:
        InputError: an unknown name, or a sweep file or record that cannot be used.
        OSError: the folder cannot be written.
    """
    if unknown := set(names) - FIGURES.keys():
        raise InputError(f"--figures: expected {', '.join(FIGURES)}, got {', '.join(sorted(unknown))}. Choose one.")
    for name, figure in FIGURES.items():
        if names and name not in names:
            continue
        there = [one for one in figure.sweeps if only is None or one in only]
        specs = [runs.spec(one) for one in there if (runs.sweeps / f"{one}.yaml").is_file()]
        specs = [spec for spec in specs if runs.store and any(str(cell.id) in runs.store for cell in spec.runnable)]
        table = figure.points(runs, *specs) if specs else None
        if table is None or table.empty:
            yield Drawn(f"{name}: not drawn, since {runs.folder} lacks scores of {' or '.join(figure.sweeps)}")
            continue
        paths = style.write(figure.draw(table), table, out / name, png)
        yield Drawn(f"{name}: {out / name}.{{{','.join(p.suffix[1:] for p in paths)}}}", paths)
