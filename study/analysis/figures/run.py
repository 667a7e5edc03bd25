"""One run as a figure: its learning curve, or the curve of a pruning, and one attention map beside it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from study.analysis.figures import style
from study.analysis.run_text import map_title, run_line, series
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
    """The figure of several attention maps with their models, side by side, titled with the source sentence."""
    widths = [max(style.COLUMN, 0.22 * len(attention["source"]) + 1.7) for attention, _ in maps]
    height = max(2.6, 0.18 * max(len(attention["target"]) for attention, _ in maps) + 1.7)
    figure, axes = style.subplots(1, len(maps), figsize=(sum(widths), height), width_ratios=widths, squeeze=False)
    for one, (attention, model), width in zip(axes[0], maps, widths, strict=True):
        draw_map(one, attention)
        lines = [model, f"entropy {entropy(attention):.2f}", (attention.get("text") or {}).get("target", "")]
        one.set_title("\n".join(textwrap.fill(line, int(11 * width)) for line in lines if line), loc="left", fontsize=8)
        one.tick_params(axis="both", labelsize=7.5)
    figure.suptitle((maps[0][0].get("text") or {}).get("source", ""), fontsize=8, x=0.01, ha="left")
    return figure


def title(attention: dict[str, Any], model: str) -> str:
    """Title of the map: the model, both sentences, and the entropy of the weights, 0 (one slot) to 1 (uniform)."""
    texts = attention.get("text") or {}
    return "\n".join([f"{model}: entropy {entropy(attention):.2f}", *(text for text in texts.values() if text)])


def entropy(attention: dict[str, Any]) -> float:
    """Entropy of the weights of a map, 0 (one slot) to 1 (uniform): the mean over target tokens."""
    slots = max(len(attention["source"]), 2)
    rows = [-sum(w * math.log(w) for w in row if w > 0) / math.log(slots) for row in attention["weights"]]
    return float(sum(rows) / max(len(rows), 1))


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
    """Weights from 0 (white) to 1 (dark); target tokens down, source tokens across; gold links framed."""
    from matplotlib.patches import Rectangle

    source, target = attention["source"], attention["target"]
    image = axes.imshow(attention["weights"], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    size = 7.5 if len(source) <= 25 else 5
    axes.tick_params(axis="both", labelsize=size, length=0)
    axes.grid(False)
    for s, t in attention.get("gold") or []:
        axes.add_patch(Rectangle((s - 0.45, t - 0.45), 0.9, 0.9, fill=False, edgecolor="C1", linewidth=1.0))
    axes.set_title(map_title(attention) + ("; framed: gold" if attention.get("gold") else ""), loc="left")
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
