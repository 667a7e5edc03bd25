"""One run as a figure: its learning curve, or the curve of a pruning, and attention maps."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from study import attention_map, files
from study.analysis.figures import style
from study.analysis.run_text import run_line
from study.store.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAMES = 2
"""Maps of an animation in a second."""


@style.styled()
def draw_run(record: Record, attention: dict[str, Any] | None) -> Figure:
    """The figure of a run: the curve and, if there is one, the attention map.

    The curve of a pruned run is BLEU against the share of heads kept; of others, validation BLEU and loss by step.
    """
    height = max(3.0, 0.13 * len(attention["target"]) + 1.3) if attention else 3.0
    size = (style.PAGE if attention else style.COLUMN, height)
    figure, axes = style.subplots(1, 2 if attention else 1, figsize=size, squeeze=False)
    figure.suptitle(f"{record.id}: {run_line(record)}", fontsize=8.5, x=0.01, ha="left")
    if points := pruning_curve(record):
        shares, values = zip(*points, strict=True)
        axes[0][0].plot([100 * (1 - share) for share in shares], values, "o-", markersize=3)
        axes[0][0].set(xlabel="heads removed, %", ylabel="BLEU on test", ylim=(0, None))
    else:
        _draw_curve(axes[0][0], record)
    if attention:
        image = attention_map.draw(axes[0][1], attention)
        gold = "; framed: gold" if attention.get("gold") else ""
        axes[0][1].set_title(attention_map.title(attention) + gold, loc="left")
        _add_scale(figure, image, axes[0][1])
    return figure


@style.styled()
def draw_translations(maps: Sequence[tuple[dict[str, Any], str]]) -> Figure:
    """The figure of one or several attention maps side by side, titled with the source sentence.

    Args:
        maps: each map, and the text above it: the words that tell the models apart, or their ids.
    """
    widths = [max(2.3, 0.17 * len(attention["source"]) + 0.9) for attention, _ in maps]
    height = max(2.2, 0.16 * max(len(attention["target"]) for attention, _ in maps) + 1.6)
    figure, axes = style.subplots(1, len(maps), figsize=(sum(widths), height), width_ratios=widths, squeeze=False)
    for panel, (attention, model), width in zip(axes[0], maps, widths, strict=True):
        image = attention_map.draw(panel, attention)
        spread = attention_map.entropy(attention)
        text = (attention.get("text") or {}).get("target", "")
        lines = [model, f"→ {text}", "" if spread is None else f"entropy {spread:.2f}"]
        head = "\n".join(textwrap.fill(line, int(12 * width)) for line in lines if line)
        panel.set_title(head, loc="left", fontsize=8)
    _add_scale(figure, image, axes)
    first = maps[0][0]
    figure.suptitle(textwrap.fill(_sentence(first), int(14 * sum(widths))), fontsize=8.5, x=0.01, ha="left")
    return figure


Strip = tuple[Sequence[dict[str, Any]], str]
"""The maps of a run by step, and the words above or beside them."""


@style.styled()
def draw_maps(strips: Sequence[Strip], panels: int) -> Figure:
    """The figure of attention maps over training: a row for each run, a panel for each validation.

    If a run has more validations than `panels`, evenly spaced ones are drawn, the first and the last among them.
    """
    counts = [min(len(maps), panels) for maps, _ in strips]
    chosen = [
        [maps[round(place * (len(maps) - 1) / max(1, count - 1))] for place in range(count)]
        for (maps, _), count in zip(strips, counts, strict=True)
    ]
    columns, first = max(counts), chosen[0][0]
    width = max(0.7, 0.075 * len(first["source"])) * columns + 1.0
    height = (max(1.1, 0.1 * len(first["target"])) + 0.2) * len(strips) + 0.9
    figure, axes = style.subplots(len(strips), columns, figsize=(max(style.COLUMN, width), height), squeeze=False)
    for row, maps, (_, words) in zip(axes, chosen, strips, strict=True):
        for panel in row[len(maps) :]:
            panel.set_visible(False)
        for place, (panel, attention) in enumerate(zip(row, maps, strict=False)):
            image = attention_map.draw(panel, attention)
            panel.tick_params(labelsize=5, labelleft=place == 0, labelbottom=panel in axes[-1])
            panel.set_xticks(panel.get_xticks(), attention["source"], rotation=90, ha="center", rotation_mode="default")
            panel.set_title(str(attention["step"]) if place else f"step {attention['step']}", fontsize=style.SMALL)
        row[0].set_ylabel(textwrap.fill(words, 18), fontsize=style.SMALL)
    _add_scale(figure, image, axes)
    figure.suptitle(_sentence(first), fontsize=8.5, x=0.01, ha="left")
    return figure


@style.styled()
def animate_maps(strips: Sequence[Strip], path: Path) -> None:
    """Write the same maps as an animated GIF: the runs side by side, a frame for each validation.

    A run with fewer validations than another keeps its last map.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.animation import PillowWriter

    writer = PillowWriter(fps=FRAMES)
    size = (2.9 * len(strips), 3.1)
    figure, axes = style.subplots(1, len(strips), figsize=size, squeeze=False)
    figure.suptitle(textwrap.fill(_sentence(strips[0][0][0]), 45 * len(strips)), fontsize=7.5, x=0.01, ha="left")
    with TemporaryDirectory() as folder:
        animation = Path(folder) / "maps.gif"
        with writer.saving(figure, str(animation), style.SCREEN):
            for place in range(max(len(maps) for maps, _ in strips)):
                for panel, (maps, words) in zip(axes[0], strips, strict=True):
                    attention = maps[min(place, len(maps) - 1)]
                    panel.clear()
                    attention_map.draw(panel, attention)
                    panel.set_title(f"{textwrap.fill(words, 40)}\nstep {attention['step']}", loc="left", fontsize=8)
                writer.grab_frame()
                figure.set_layout_engine("none")  # all frames have the layout of the first
        files.write(path, animation.read_bytes())


def _sentence(attention: dict[str, Any]) -> str:
    """Return the source sentence of a map, and its place in the model."""
    gold = "; framed: gold" if attention.get("gold") else ""
    return f"{(attention.get('text') or {}).get('source', '')}   ({attention_map.title(attention)}{gold})"


def pruning_curve(record: Record) -> list[tuple[float, float]]:
    """(share of heads kept, BLEU) of a pruning, which is scored on the first test split; empty for other runs."""
    kept = [(str(score.subset), score.value) for score in record.scores if score.metric == "bleu"]
    return sorted((float(part.removeprefix("kept ")), value or 0.0) for part, value in kept if part.startswith("kept "))


def _add_scale(figure: Figure, image: Any, axes: Any) -> None:
    figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01, aspect=30).outline.set_visible(False)


def _draw_curve(axes: Axes, record: Record) -> None:
    """Draw validation BLEU on the left axis, losses on the right one, the tested step as a line."""
    beside = axes.twinx()
    lines = []
    for side, look, name, label in (
        (axes, "C0o-", "valid_bleu", "BLEU on validation"),
        (beside, "C1s--", "valid_loss", "loss on validation, nats a token"),
    ):
        points = [point for point in record.history if point.get(name) is not None]
        x, y = ([point[key] for point in points] for key in ("step", name))
        lines += side.plot(x, y, look, markersize=3, label=label)
        side.set(ylabel=label, xlabel="step", ylim=(0, None))
    beside.grid(False)
    beside.spines["right"].set_visible(True)
    if record.selection and record.selection.value is not None:
        lines.append(axes.axvline(record.selection.step, color=style.GREY, linewidth=0.8, label="tested"))
    axes.legend(handles=lines, loc="center right", frameon=True, framealpha=0.9, edgecolor="none")
