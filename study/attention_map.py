"""One attention map, as a file `attention.json` has it, and a translation with the map behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

SHADES = " ░▒▓█"
"""A weight of 0 to 1 in five steps."""
LONGEST_WORD = 12


def entropy(attention: Mapping[str, Any]) -> float | None:
    """Return the mean entropy of the rows of a map, from 0 (one slot) to 1 (uniform over visible slots).

    Rows that see one slot are left out. None if the weights of a row do not add up to 1, as those of some normalisers.
    """
    counts = attention.get("visible") or [len(attention["source"])] * len(attention["weights"])
    rows = [(weights, count) for weights, count in zip(attention["weights"], counts, strict=True) if count > 1]
    if not rows or any(min(weights) < 0 or abs(sum(weights) - 1) > 0.01 for weights, _ in rows):
        return None
    each = [-sum(w * math.log(w) for w in weights if w > 0) / math.log(count) for weights, count in rows]
    return float(sum(each) / len(each))


def lines(attention: Mapping[str, Any]) -> Iterator[str]:
    """Yield a map as text, with its title and both sentences."""
    yield f"Attention: {title(attention)}"
    for text in (attention.get("text") or {}).values():
        yield f"  {text}"
    yield ""
    yield from cells(attention)


def cells(attention: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows of a map, one for each target token, and the meaning of a shade. A dot marks a gold link."""
    source, target = ([str(token)[:LONGEST_WORD] for token in attention[side]] for side in ("source", "target"))
    gold = {(s, t) for s, t in attention.get("gold") or []}
    margin, height = (max(map(len, tokens), default=0) for tokens in (target, source))
    for letters in zip(*(token.rjust(height) for token in source), strict=True):
        yield f"{'':{margin + 4}}{' '.join(letters)}".rstrip()
    for t, (token, weights) in enumerate(zip(target, attention["weights"], strict=True)):
        shades = [SHADES[round(min(1.0, abs(weight)) * (len(SHADES) - 1))] for weight in weights]  # of any sign
        pairs = (shade + ("•" if (s, t) in gold else shade) for s, shade in enumerate(shades))
        yield f"{token:>{margin + 2}}  {''.join(pairs)}".rstrip()
    yield f"{'':{margin + 2}}  weight 0 {'·'.join(SHADES)} 1{', • gold' if gold else ''}"


def title(attention: Mapping[str, Any]) -> str:
    """Return the site, layer and head of a map in words."""
    head = "mean over heads" if attention.get("head") is None else f"head {attention['head']}"
    return f"{attention['site']}, layer {attention['layer']}, {head}"


def draw(axes: Axes, attention: Mapping[str, Any]) -> Any:
    """Draw weights from 0 (white) to 1 (dark): target tokens down, source tokens across, gold links framed.

    Returns:
        The image, for a bar of colours.
    """
    from matplotlib.patches import Rectangle

    source, target = attention["source"], attention["target"]
    image = axes.imshow(attention["weights"], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.tick_params(axis="both", labelsize=7.5 if len(source) <= 25 else 5, length=0)
    axes.grid(False)
    for s, t in attention.get("gold") or []:
        axes.add_patch(Rectangle((s - 0.45, t - 0.45), 0.9, 0.9, fill=False, edgecolor="C1", linewidth=1.0))
    return image


@dataclass(frozen=True, repr=False)
class Translation:
    """A translation and the attention behind it: T target tokens, S source tokens, end-of-sentence counted.

    Attributes:
        text: the translation.
        source: tokens of the source sentence. A word that the model does not know has a question mark.
        target: tokens of the translation.
        attention: weights of one site, target × source, and their place; None if no slot is a source token, or the
            translation is too long for learned positions.
    """

    text: str
    source: list[str]
    target: list[str]
    attention: dict[str, Any] | None

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Attention [T, S], of one head or the mean over heads; None if the slots are no tokens."""
        import numpy as np

        return None if self.attention is None else np.asarray(self.attention["weights"], dtype=float)

    @property
    def entropy(self) -> float | None:
        """Entropy of the weights, from 0 (one token) to 1 (uniform); None if they are no distributions."""
        return None if self.attention is None else entropy(self.attention)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Translation {self.text!r}>"
