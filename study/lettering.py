"""Letters in figures: text of the world is drawn as it is, in the house font and then in the reader's fonts."""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure

HOUSE = "DejaVu Sans"
LACKING = ") missing from "
"""Words of matplotlib's warning about one letter."""
REMEDY = "Install a font that has such letters, and name it in matplotlib's setting font.family."


def settings() -> dict[Any, Any]:
    """Return matplotlib's settings for text that is no formula: `$5 or $10` stays as it is.

    Letters that the house font lacks are taken from the fonts that the reader's `font.family` names.
    """
    reader: Any = matplotlib.rcParams
    named = [font for family in reader["font.family"] for font in reader.get(f"font.{family}", [family])]
    installed = font_manager.get_font_names()
    fonts = dict.fromkeys((HOUSE, *(font for font in named if font in installed)))
    plain = dict.fromkeys(("text.parse_math", "text.usetex", "axes.formatter.use_mathtext"), False)
    return {**plain, "font.family": list(fonts)}


class TextFigure(Figure):
    """A figure that warns once, and not of each letter that no font has."""

    warned = False

    def draw(self, renderer: Any) -> None:
        """Draw the figure."""
        with warnings.catch_warnings(record=True) as seen:
            super().draw(renderer)
        for text in seen:
            if LACKING not in str(text.message):
                warnings.warn_explicit(text.message, text.category, text.filename, text.lineno)
            elif not self.warned:
                self.warned = True
                warnings.warn(f"letters are drawn as boxes: {text.message} {REMEDY}", stacklevel=2)
