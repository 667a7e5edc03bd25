"""One run as text: configuration, scores and attention map."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from study import attention_map
from study.analysis import labels
from study.config import words
from study.config.overrides import flat
from study.scores import metrics as table
from study.store.records import Record


def describe(record: Record, attention: dict[str, Any] | None) -> Iterator[str]:
    """Return all lines about one run."""
    yield f"{record.id}   {record.status}{f': {record.error}' if record.error else ''}"
    if record.model:
        flops = record.model.flops_per_token
        sizes = f"  {record.model.parameters:,} parameters, {record.model.parameters_attention:,} of them attention's"
        yield sizes + ("" if flops is None else f"; {flops:,} FLOPs per target token")
    if record.resources and record.provenance:
        took = record.resources
        speed = f"trained in {took.train_seconds:,.0f} s at {took.tokens_per_second:,.0f} tokens/s"
        untrained = f"took {took.wall_seconds:,.0f} s without training"  # a pruning of a trained model
        yield f"  {speed if took.train_seconds else untrained} on {record.provenance.device}"
    if record.selection and record.selection.value is not None:
        rule = record.selection.rule
        yield f"  step {record.selection.step} was tested: {labels.RULES.get(rule, rule)}"
    yield from ["", "Configuration (what differs from the defaults)", *configuration(record)]
    if record.scores:
        yield from ["", "Scores", *scores(record)]
    if attention:
        yield from ["", *attention_map.lines(attention)]


def run_line(record: Record) -> str:
    """Return status and deciding score in one line."""
    split = next((score.split for score in record.scores if score.split != "valid"), "valid")
    value = record.score(split, "exact")
    return record.status + ("" if value is None else f", {split}: exact match {value:.1f}%")


def configuration(record: Record) -> Iterator[str]:
    """Yield every field that differs from the defaults of its corpus and family, and the value it would have."""
    config, default, changed = dict(flat(record.config)), words.defaults(record.config), words.changed(record.config)
    values = {name: config[name] for name in (*words.MAIN, *changed) if name in config} | {"seed": record.seed}
    width = max(map(len, values))
    for name, value in values.items():
        usual = f"   (default {_plain(default[name])})" if name in changed and name in default else ""
        yield f"  {name:<{width}}  {_plain(value)}{usual}"


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) and value else json.dumps(value)


def scores(record: Record) -> Iterator[str]:
    """Yield a row for each score and a column for each split; then a row for each part of a split, if there are any."""
    for parts in (False, True):
        grid: dict[str, dict[str, str]] = {}
        columns: dict[str, None] = {}
        for score in record.scores:
            if (score.subset is not None) != parts:
                continue
            metric = table.metric_of(f"/{score.metric}")
            place = ", ".join(filter(None, (score.split, score.subset)))
            texts = {"sentences": str(score.n), metric.full_title: labels.number(score.value, metric.decimals)}
            for name, text in texts.items():
                row, column = (place, name) if parts else (name, place)
                grid.setdefault(row, {}).setdefault(column, text)
                columns[column] = None
        if not grid:
            continue
        lines = [["", *columns]]
        for name, texts in grid.items():
            lines.append([name, *(texts.get(column, "") for column in columns)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        if parts:
            yield ""
        for name, *cells in lines:
            yield " ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip()


def side_by_side(blocks: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Return blocks of lines side by side, as many in a row as fit into a width in characters."""
    from rich.columns import Columns
    from rich.console import Console
    from rich.text import Text

    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(Columns([Text("\n".join(block)) for block in blocks], padding=(0, 4, 1, 0)))
    return (line.rstrip() for line in captured.get().splitlines())
