"""One run as text: configuration, scores, learning curve and attention map."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from study import attention_map
from study import metrics as table
from study.analysis import labels
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
        speed = f"{record.resources.tokens_per_second:,.0f} tokens/s"
        yield f"  trained in {record.resources.train_seconds:,.0f} s at {speed} on {record.provenance.device}"
    if record.selection and record.selection.value is not None:
        yield f"  step {record.selection.step} was tested, chosen by {record.selection.rule} on validation"


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
    """One line per split and one per bucket of it, one column per metric."""
    metrics = list(dict.fromkeys(score.metric for score in record.scores))
    places = list(dict.fromkeys((score.split, score.subset) for score in record.scores))
    names = [split if subset is None else f"  {split}, {subset}" for split, subset in places]
    width = max(map(len, names))
    yield f"  {'':<{width}}  {'n':>5}" + "".join(f"  {_head(metric):>{_width(metric)}}" for metric in metrics)
    for name, (split, subset) in zip(names, places, strict=True):
        there = {s.metric: s for s in record.scores if (s.split, s.subset) == (split, subset)}
        cells = [labels.number(there[m].value, table.decimals(f"{split}/{m}")) if m in there else "" for m in metrics]
        count = next(iter(there.values())).n
        yield f"  {name:<{width}}  {count:>5}" + "".join(
            f"  {cell:>{_width(metric)}}" for cell, metric in zip(cells, metrics, strict=True)
        )


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


def _head(metric: str) -> str:
    known = table.METRICS.get(metric)
    return (known.short if known else "") or metric


def _width(metric: str) -> int:
    return max(6, len(_head(metric)))


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
