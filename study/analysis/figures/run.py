"""One run as a figure: its learning curve, or the curve of a pruning, and one attention map beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from study import attention_map
from study.analysis.figures import style
from study.analysis.run_text import run_line, series
from study.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@style.styled()
def draw_run(record: Record, attention: dict[str, Any] | None) -> Figure:
    """The figure of a run: the curve and, if there is one, the attention map.

    The curve of a pruned run is BLEU against the share of heads kept; of others, validation BLEU and loss by step.
    """
    ratios = [1.0, 1.5] if attention else [1.0]
    height = 3.0 if attention is None else max(3.0, 0.13 * len(attention["target"]) + 1.3)
    figure, axes = style.subplots(
        1,
        len(ratios),
        figsize=(style.PAGE if attention else style.COLUMN, height),
        width_ratios=ratios,
        squeeze=False,
    )
    figure.suptitle(f"{record.id}: {run_line(record)}", fontsize=8.5, x=0.01, ha="left")
    if points := pruning_curve(record):
        draw_pruning(axes[0][0], points)
    else:
        draw_curve(axes[0][0], record)
    if attention:
        draw_map(axes[0][1], attention)
    return figure


@style.styled()
def draw_translation(attention: dict[str, Any], model: str) -> Figure:
    """The figure of one attention map, as large as its tokens need, titled with the model and both sentences."""
    width = max(style.COLUMN, 0.22 * len(attention["source"]) + 1.7)
    height = max(2.4, 0.18 * len(attention["target"]) + 1.5)
    figure, axes = style.subplots(figsize=(width, height))
    draw_map(axes, attention)
    head = title(attention, model)
    head = "\n".join(part for line in head.splitlines() for part in textwrap.wrap(line, int(16 * width)) or [""])
    figure.suptitle(head, fontsize=8, x=0.01, ha="left")
    axes.tick_params(axis="both", labelsize=7.5)  # the figure grows with its tokens, so they need not shrink
    return figure


@style.styled()
def draw_translations(maps: Sequence[tuple[dict[str, Any], str]]) -> Figure:
    """The figure of several attention maps side by side, titled with the source sentence.

    Args:
        maps: each map, and the text above it: the words that tell the models apart, or their ids.
    """
    widths = [max(2.3, 0.17 * len(attention["source"]) + 0.9) for attention, _ in maps]
    height = max(2.2, 0.16 * max(len(attention["target"]) for attention, _ in maps) + 1.6)
    figure, axes = style.subplots(1, len(maps), figsize=(sum(widths), height), width_ratios=widths, squeeze=False)
    for one, (attention, model), width in zip(axes[0], maps, widths, strict=True):
        image = attention_map.draw(one, attention)
        spread = attention_map.entropy(attention)
        text = (attention.get("text") or {}).get("target", "")
        lines = [model, f"→ {text}", "" if spread is None else f"entropy {spread:.2f}"]
        one.set_title("\n".join(textwrap.fill(line, int(12 * width)) for line in lines if line), loc="left", fontsize=8)
    bar = figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01, aspect=30)
    bar.outline.set_visible(False)
    first = maps[0][0]
    source = (first.get("text") or {}).get("source", "")
    figure.suptitle(f"{source}   ({attention_map.title(first)})", fontsize=8.5, x=0.01, ha="left")
    return figure


def title(attention: dict[str, Any], model: str) -> str:
    """Title of the map: the model, both sentences, and the entropy of the weights, 0 (one slot) to 1 (uniform)."""
    texts, spread = attention.get("text") or {}, attention_map.entropy(attention)
    head = model if spread is None else f"{model}: entropy {spread:.2f}"
    return "\n".join([head, *(text for text in texts.values() if text)])


def pruning_curve(record: Record) -> list[tuple[float, float]]:
    """(share of heads kept, BLEU on the first test split) of a pruning; empty for other runs."""
    split = next((score.split for score in record.scores if score.split != "valid"), "")
    kept = [
        (float(score.subset.removeprefix("kept ")), score.value)
        for score in record.scores
        if score.split == split and score.metric == "bleu" and score.subset and score.subset.startswith("kept ")
    ]
    return sorted((share, value) for share, value in kept if value is not None)


def draw_pruning(axes: Axes, points: list[tuple[float, float]]) -> None:
    """BLEU against the share of heads that are removed."""
    axes.plot([100 * (1 - share) for share, _ in points], [value for _, value in points], "o-", markersize=3)
    axes.set_xlabel("heads removed, %")
    axes.set_ylabel("BLEU on test")
    axes.set_ylim(bottom=0)


def draw_curve(axes: Axes, record: Record) -> None:
    """Validation BLEU on the left axis, losses on the right one, the tested step as a line."""
    bleu, loss = series(record, "valid_bleu"), series(record, "valid_loss")
    axes.set_xlabel("step")
    axes.set_ylabel("BLEU on validation")
    lines = axes.plot(*_columns(bleu), "o-", color="C0", markersize=3, label="BLEU")
    axes.set_ylim(bottom=0)
    beside = axes.twinx()
    lines += beside.plot(*_columns(loss), "s--", color="C1", markersize=3, label="loss")
    beside.set_ylabel("loss on validation, nats a token")
    beside.set_ylim(bottom=0)
    beside.grid(False)
    if record.selection and record.selection.value is not None:
        lines.append(axes.axvline(record.selection.step, color=style.GREY, linewidth=0.8, label="tested"))
    axes.legend(handles=lines, loc="center right", frameon=True, framealpha=0.9, edgecolor="none")
    axes.spines["top"].set_visible(False)
    beside.spines["top"].set_visible(False)


def _columns(points: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [step for step, _ in points], [value for _, value in points]


def draw_map(axes: Axes, attention: dict[str, Any]) -> None:
    """A map as `attention_map.draw` draws it, with its site as title and a bar of colours."""
    image = attention_map.draw(axes, attention)
    axes.set_title(attention_map.title(attention) + ("; framed: gold" if attention.get("gold") else ""), loc="left")
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
