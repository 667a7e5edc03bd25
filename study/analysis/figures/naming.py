"""Names of marks, each where nothing else is drawn, tied to its mark by a thin line."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from scipy.ndimage import binary_dilation

from study.analysis.figures import panels, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

GAPS = (6, 12, 19, 27, 36, 46, 58, 72, 90)
"""Pixels between a name and its mark, which are tried in turn."""
TURNS = np.array([(np.cos(turn), np.sin(turn)) for turn in 2 * np.pi * (np.arange(36) + 0.5) / 36])
"""Directions from a mark to the middle of its name."""
DARK, COLOURED, MARK, ASIDE = 210, 60, 8, 3
"""Brightness of what a name must not cover; colour of a mark; pixels of a mark, and between it and lines of others."""
LEADER = {"arrowstyle": "-", "linewidth": 0.4, "color": panels.INK, "shrinkA": 0, "shrinkB": 2}


def name(figure: Figure, names: Mapping[Axes, Iterable[tuple[str, NDArray[np.float64]]]]) -> None:
    """Write the names of marks at x and y into each panel, the first ones first; what finds no free place is left out.

    The figure is finished but for its names: free is what it shows as nearly white.
    """
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3]
    drawn = pixels.min(axis=2) < DARK
    barred = binary_dilation(np.ptp(pixels, axis=2) > COLOURED, iterations=ASIDE)
    for axes, places in names.items():
        for words, place in places:
            text = axes.annotate(words, tuple(place), (0, 0), textcoords="offset points", arrowprops=LEADER)
            text.set(fontsize=style.SMALL, linespacing=0.95, ha="center", va="center", in_layout=False)
            dot, half = axes.transData.transform(place), np.divide(Text.get_window_extent(text).size, 2)
            for gap, turn in itertools.product(GAPS, TURNS):
                aside = (half + gap) * turn / np.abs(turn).max()
                box = Bbox([dot + aside - half, dot + aside + half]).padded(2)
                (left, bottom), (right, top) = box.get_points().astype(int)
                cells = np.s_[bottom : top + 1, left : right + 1]
                line = np.linspace(dot + MARK * turn, dot + aside, 200).astype(int).T[::-1]
                inside = axes.bbox.count_contains(box.corners()) == 4
                if inside and not drawn[cells].any() and not barred[*line].any():
                    text.xyann = aside * 72 / figure.dpi
                    drawn[cells] = barred[cells] = drawn[*line] = True
                    for shift in itertools.product((-1, 0, 1), repeat=2):
                        barred[*(line + np.array([shift]).T)] = True
                    break
            else:
                text.remove()
