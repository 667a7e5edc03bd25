"""Facts of one record in rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import Any

from study import metrics
from study.analysis import labels
from study.analysis.labels import number
from study.records import Record

MEASURES = ("entropy", "max_weight", "gold_mass", "logit_sd", "information")
"""Columns of the table of heads."""


def spread(records: Iterable[Record], split: str, metric: str) -> str:
    """Mean ± standard deviation over runs."""
    known = [value for record in records if (value := record.score(split, metric)) is not None]
    if not known:
        return labels.NOTHING
    sd = stdev(known) if len(known) > 1 else None
    return labels.mean_sd(mean(known), sd, metrics.decimals(f"{split}/{metric}"))


def costs(record: Record) -> dict[str, Any]:
    """Tested step, speed, time and origin, as columns of the table of all runs."""
    took, made = record.resources, record.provenance
    found = {"step": record.selection.step if record.selection else None}
    found |= {"tokens/s": round(took.tokens_per_second), "train seconds": round(took.train_seconds)} if took else {}
    return found | ({"device": made.device, "commit": (made.git_commit or "")[:8]} if made else {})


def origins(record: Record) -> list[tuple[str, list[tuple[str, str]]]]:
    """Costs and provenance, in two lists of names and values."""
    model, took, made, data = record.model, record.resources, record.provenance, record.data
    costs = (
        [("parameters", f"{model.parameters:,}"), ("of them attention's", f"{model.parameters_attention:,}")]
        if model
        else []
    )
    if model and model.flops_per_token is not None:
        costs.append(("FLOPs per target token", f"{model.flops_per_token:,}"))
    if took:
        costs += [("training", f"{took.train_seconds:,.0f} s"), ("all calls together", f"{took.wall_seconds:,.0f} s")]
        costs += [("training speed", f"{took.tokens_per_second:,.0f} target tokens/s")]
        costs += [("peak memory", f"{took.peak_memory_bytes / 2**20:,.0f} MiB")]
        if took.decode_sentences_per_second is not None:
            costs.append(("beam search", f"{took.decode_sentences_per_second:,.0f} sentences/s"))
    origin = [("identity", record.id), ("status", record.status)]
    if record.error:
        origin.append(("error", record.error))
    if record.selection:
        origin.append(("tested update", f"{record.selection.step}, chosen by {record.selection.rule} on validation"))
    if made:
        origin += [("started", made.started_utc), ("device", f"{made.device} × {made.device_count}")]
        origin += [("commit", f"{made.git_commit or 'none'}{' with changes' if made.git_dirty else ''}")]
        packages = ", ".join(f"{name} {version}" for name, version in made.packages.items())
        origin += [("Python", made.python), ("packages", packages), ("precision", made.precision)]
        origin += [("same bits on every run", "yes" if made.deterministic else "no")]
    if data:
        origin += [("data", f"{data.name}, version {data.version}, {data.source} → {data.target}")]
        origin += [(f"SHA-256 of {name}", digest) for name, digest in data.files.items()]
    origin.append(("SHA-256 of the configuration", record.config_hash))
    if record.wandb and (record.wandb.url or "").startswith(("https://", "http://")):
        origin.append(("W&B", record.wandb.url or ""))
    return [("Cost", costs), ("Provenance", origin)]


def scores(record: Record) -> dict[str, Any]:
    """Scores: a row for each split and each part of it, a column for each metric."""
    names = list(dict.fromkeys(score.metric for score in record.scores))
    rows = []
    for split, subset in dict.fromkeys((score.split, score.subset) for score in record.scores):
        there = {s.metric: s for s in record.scores if (s.split, s.subset) == (split, subset)}
        cells = [number(there[m].value, metrics.decimals(f"{split}/{m}")) if m in there else "" for m in names]
        rows.append({"split": split, "subset": subset or "", "n": next(iter(there.values())).n, "cells": cells})
    heads = [(m, metrics.metric_of(f"/{m}").full_title) for m in names]
    return {"heads": heads, "rows": rows}


def heads(record: Record) -> list[dict[str, Any]]:
    """Measures of every head: site, layer, head, then `MEASURES`."""
    rows = []
    for site, layers in record.diagnostics.items():
        for layer, found in enumerate(layers if isinstance(layers, list) else []):
            values = {m: found[m] for m in MEASURES if isinstance(found, dict) and isinstance(found.get(m), list)}
            for head in range(max(map(len, values.values()), default=0)):
                cells = [_at(values.get(m, []), head) for m in MEASURES]
                rows.append({"site": site.replace("_", " "), "layer": layer, "head": head, "cells": cells})
    return rows


def _at(values: Sequence[Any], place: int) -> str:
    known = values[place] if place < len(values) else None
    return number(known, 3) if isinstance(known, int | float) else labels.NOTHING
