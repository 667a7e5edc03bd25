"""One run as text: configuration, scores, learning curve and attention map."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from study import attention_map
from study import metrics as table
from study.analysis import labels
from study.analysis.comparison import RULES
from study.config import words
from study.config.overrides import flat
from study.records import Record

HEIGHT = 8
GAP = 4
"""Blanks between blocks side by side."""


def describe(record: Record, attention: dict[str, Any] | None) -> Iterator[str]:
    """Return all lines about one run."""
    yield f"{record.id}   {record.status}{f': {record.error}' if record.error else ''}"
    yield from _facts(record)
    yield from ["", "Configuration (what differs from the defaults)", *configuration(record)]
    if record.scores:
        yield from ["", "Scores", *scores(record)]
    if lines := list(entropies(record.diagnostics)):
        yield from ["", "Attention entropy, from 0 (one slot) to 1 (uniform): mean, then heads by layer", *lines]
    for name, title in (("valid_bleu", "Validation BLEU"), ("valid_loss", "Validation loss")):
        points = series(record, name)
        if len(points) > 1:
            yield from ["", f"{title} by step", *plot(points)]
    if attention:
        yield from ["", *attention_map.lines(attention)]


def run_line(record: Record) -> str:
    """Return status and deciding score in one line."""
    split = next((score.split for score in record.scores if score.split != "valid"), "valid")
    value = record.score(split, "exact")
    shown = "" if value is None else f", {split}: exact match {value:.1f}%"
    return f"{record.status}{shown}"


def _facts(record: Record) -> Iterator[str]:
    if record.model:
        sizes = f"{record.model.parameters:,} parameters, {record.model.parameters_attention:,} of them attention's"
        flops = record.model.flops_per_token
        yield f"  {sizes}" + ("" if flops is None else f"; {flops:,} FLOPs per target token")
    if record.resources and record.provenance:
        took, device = record.resources, record.provenance.device
        speed = f"{took.train_seconds:,.0f} s at {took.tokens_per_second:,.0f} tokens/s"
        untrained = f"took {took.wall_seconds:,.0f} s without training"  # a pruning of a trained model
        yield f"  {f'trained in {speed}' if took.train_seconds else untrained} on {device}"
    if record.selection and record.selection.value is not None:
        rule = record.selection.rule
        yield f"  step {record.selection.step} was tested: {RULES.get(rule, rule)}"


def configuration(record: Record) -> Iterator[str]:
    """Yield every field that differs from the defaults of its corpus and family, and the value it would have."""
    config, default, changed = dict(flat(record.config)), words.defaults(record.config), words.changed(record.config)
    shown = {name: config[name] for name in (*words.MAIN, *changed) if name in config}
    shown.setdefault("seed", record.seed)
    width = max(map(len, shown))
    for name, value in shown.items():
        usual = f"   (default {_plain(default[name])})" if name in changed and name in default else ""
        yield f"  {name:<{width}}  {_plain(value)}{usual}"


def _plain(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) and value else json.dumps(value)


def scores(record: Record) -> Iterator[str]:
    """Yield a row for each score and a column for each split; then a row for each part of a split, if there are any."""
    there = {(score.split, score.subset, score.metric): score for score in record.scores}

    def cell(split: str, subset: str | None, metric: str) -> str:
        score = there.get((split, subset, metric))
        return "" if score is None else labels.number(score.value, table.decimals(f"{split}/{metric}"))

    counts: dict[tuple[str, str | None], str] = {}
    for score in record.scores:
        counts.setdefault((score.split, score.subset), str(score.n))
    splits = [split for split, subset in counts if subset is None]
    rows = [["", *splits], ["sentences", *(counts[split, None] for split in splits)]]
    for metric in dict.fromkeys(metric for _, subset, metric in there if subset is None):
        rows.append([table.metric_of(f"/{metric}").full_title, *(cell(split, None, metric) for split in splits)])
    yield from _columns(rows)
    parts = [(split, subset) for split, subset in counts if subset is not None]
    if parts:
        metrics = list(dict.fromkeys(metric for _, subset, metric in there if subset is not None))
        rows = [["", "sentences", *(table.metric_of(f"/{metric}").full_title for metric in metrics)]]
        for place in parts:
            rows.append([", ".join(map(str, place)), counts[place], *(cell(*place, metric) for metric in metrics)])
        yield from ["", *_columns(rows)]


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (f"  {cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        yield f"  {first:<{widths[0]}}{''.join(cells)}".rstrip()


def entropies(diagnostics: dict[str, Any]) -> Iterator[str]:
    """One line per site: mean entropy of the weights, then every head, with layers between bars."""
    for site, layers in diagnostics.items():
        found = [_entropies(layer) for layer in layers] if isinstance(layers, list) else []
        known = [value for heads in found for value in heads]
        if known:
            by_layer = " | ".join(" ".join(f"{value:.2f}" for value in heads) for heads in found)
            yield f"  {site:<12}  {sum(known) / len(known):.2f}   {by_layer}"


def _entropies(layer: Any) -> list[float]:
    """Entropy of every head of a layer, as new records (a list) or old ones (a section per head) have it."""
    values = layer.get("entropy") if isinstance(layer, dict) else None
    heads = [head.get("entropy") for head in layer if isinstance(head, dict)] if isinstance(layer, list) else values
    return [float(value) for value in heads or () if isinstance(value, int | float)]


def series(record: Record, name: str) -> list[tuple[int, float]]:
    """(step, value) of one quantity over the validations."""
    return [(point["step"], point[name]) for point in record.history if point.get(name) is not None]


def plot(points: Sequence[tuple[int, float]], height: int = HEIGHT, width: int = 60) -> Iterator[str]:
    """A chart of bars in block characters, from 0 (or the smallest value, if that is negative) to the largest value."""
    values = [value for _, value in points]
    top, bottom = max(values), min(0.0, *values)
    span = (top - bottom) or 1.0
    shown = values if len(values) <= width else [values[i * len(values) // width] for i in range(width)]
    bar = max(1, width // len(shown) - 1)
    levels = [round((value - bottom) / span * height * 8) for value in shown]
    for row in range(height - 1, -1, -1):
        label = {height - 1: top, 0: bottom}.get(row)
        cells = (" ▁▂▃▄▅▆▇█"[min(8, max(0, level - 8 * row))] * bar for level in levels)
        yield f"  {'' if label is None else labels.number(label, 2):>8} │{' '.join(cells)}".rstrip()
    length = len(shown) * (bar + 1) - 1
    first, last = str(points[0][0]), str(points[-1][0])
    yield f"  {'':8} └{'─' * length}"
    yield f"  {'step':>8}  {first}{last:>{max(1, length - len(first))}}"


def side_by_side(blocks: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Blocks of lines side by side, as many in a row as fit into a width in characters."""
    rest = list(blocks)
    while rest:
        widths = [max(map(len, block), default=0) for block in rest]
        count = 1
        while count < len(rest) and sum(widths[: count + 1]) + GAP * count <= width:
            count += 1
        for parts in itertools.zip_longest(*rest[:count], fillvalue=""):
            yield (" " * GAP).join(part.ljust(size) for part, size in zip(parts, widths, strict=False)).rstrip()
        rest = rest[count:]
        if rest:
            yield ""
