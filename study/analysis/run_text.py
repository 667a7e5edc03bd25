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

GAP = 4
"""Blanks between blocks side by side."""


def describe(record: Record, attention: dict[str, Any] | None) -> Iterator[str]:
    """Return all lines about one run."""
    yield f"{record.id}   {record.status}{f': {record.error}' if record.error else ''}"
    yield from _facts(record)
    yield from ["", "Configuration (what differs from the defaults)", *configuration(record)]
    if record.scores:
        yield from ["", "Scores", *scores(record)]
    for name, title in (("valid_bleu", "Validation BLEU"), ("valid_loss", "Validation loss")):
        points = series(record, name)
        if len(points) > 1:
            yield from ["", f"{title} by step", f"  {sparkline(points)}"]
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
    there = {
        (s.split, s.subset, s.metric): labels.number(s.value, table.decimals(f"/{s.metric}")) for s in record.scores
    }
    counts: dict[tuple[str, str | None], str] = {}
    for score in record.scores:
        counts.setdefault((score.split, score.subset), str(score.n))
    whole = [split for split, subset in counts if subset is None]
    titles = {metric: table.metric_of(f"/{metric}").full_title for _, _, metric in there}
    rows = [["", *whole], ["sentences", *(counts[split, None] for split in whole)]]
    for metric in dict.fromkeys(metric for _, subset, metric in there if subset is None):
        rows.append([titles[metric], *(there.get((split, None, metric), "") for split in whole)])
    yield from _columns(rows)
    if parts := [place for place in counts if place[1] is not None]:
        found = list(dict.fromkeys(metric for _, subset, metric in there if subset is not None))
        rows = [["", "sentences", *(titles[metric] for metric in found)]]
        for place in parts:
            cells = (there.get((*place, metric), "") for metric in found)
            rows.append([", ".join(map(str, place)), counts[place], *cells])
        yield from ["", *_columns(rows)]


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (f"  {cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        yield f"  {first:<{widths[0]}}{''.join(cells)}".rstrip()


def series(record: Record, name: str) -> list[tuple[int, float]]:
    """(step, value) of one quantity over the validations."""
    return [(point["step"], point[name]) for point in record.history if point.get(name) is not None]


def sparkline(points: Sequence[tuple[int, float]]) -> str:
    """Return a curve in block characters from its smallest to its largest value, between its ends."""
    values = [value for _, value in points]
    low, span = min(values), max(values) - min(values) or 1.0
    blocks = "".join("▁▂▃▄▅▆▇█"[int((value - low) / span * 7)] for value in values)
    first, last = (f"step {step}: {labels.number(value, 2)}" for step, value in (points[0], points[-1]))
    return f"{first}  {blocks}  {last}"


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
