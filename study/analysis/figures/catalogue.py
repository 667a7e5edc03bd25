"""All figures of the study by name, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from study.analysis.agreement import PAIRS
from study.analysis.figures import agreement, hero, multiples, style
from study.analysis.runs import MADE, Runs
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
    narrow: Callable[[pd.DataFrame], Figure] | None = None
    """Draws the same table for the screen of a phone, as a second picture NAME_narrow.svg."""


FIGURES = {
    "hero": NamedFigure(
        ("scale_parts", "inverse_scale", "learned_scale"),
        hero.points,
        hero.draw,
        partial(hero.draw, narrow=True),
    ),
    "scale": NamedFigure(("scale_parts", "inverse_scale", "learned_scale"), multiples.scale_points, multiples.scale),
    "lengths": NamedFigure(("bottleneck",), multiples.lengths_points, multiples.lengths),
    "pruning": NamedFigure(("pruning",), multiples.pruning_points, multiples.pruning),
    "transfer": NamedFigure((*PAIRS["transfer"], *PAIRS["today"]), agreement.points, agreement.draw),
    "longer": NamedFigure((*PAIRS["longer"], *PAIRS["asymptotes"]), agreement.points, agreement.draw),
    "decoder_only": NamedFigure(
        PAIRS["decoder_only_transfer"],
        partial(agreement.points, pairs=("decoder_only", "decoder_only_multi30k")),
        agreement.draw,
    ),
}


def draw_all(runs: Runs, out: Path, names: Collection[str] = ()) -> Iterator[tuple[str, list[Path]]]:
    """Draw figures from the sweep files and the records of a folder; yield the name and the files of each.

    A figure without scores has no files.

    Args:
        runs: the runs.
        out: folder of the figures.
        names: which figures (default: all).

    Raises:
        InputError: an unknown name, or a sweep file or record that cannot be used.
        OSError: the folder cannot be written.
    """
    if unknown := set(names) - FIGURES.keys():
        raise InputError(f"--figures: expected {', '.join(FIGURES)}, got {', '.join(sorted(unknown))}. Choose one.")
    for name in names or FIGURES:
        figure = FIGURES[name]
        specs = [runs.spec(sweep) for sweep in figure.sweeps if (runs.sweeps / f"{sweep}.yaml").is_file()]
        specs = [spec for spec in specs if any(run.state in MADE for run in runs.of(spec))]
        paths = []
        if specs and not (table := figure.points(runs, *specs)).empty:
            paths = style.write(figure.draw(table), table, out / name)
            if figure.narrow:
                paths.append(out / f"{name}_narrow.svg")
                style.write_picture(figure.narrow(table), paths[-1])
        yield name, paths
