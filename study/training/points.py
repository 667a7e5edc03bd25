"""Points of a run's learning curves as W&B gets them, computed from plain data: without torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from study.records import Record

NAMES = (
    *("logit_mean", "logit_sd", "logit_max", "entropy", "information", "spread", "max_weight", "softmax_gradient"),
    *("query_norm", "key_norm", "cosine", "context_norm", "context_slope"),
    *("gold_mass", "argmax_on_gold", "last_two_mass", "end_mass", "diagonal_mass", "symmetry"),
)
"""Names of all measures of a head, in the order in which they are written."""

Point = tuple[int, dict[str, Any]]
"""Step, and values by name."""


def of_record(record: Record, training: bytes | None, history: bytes | None) -> list[Point]:
    """Return all points of a run, by step.

    Args:
        record: the record. Its short history is used where there is no whole one.
        training: content of `training.jsonl`; None if there is no such file.
        history: content of `history.jsonl`, likewise.
    """
    found = record.diagnostics.get("gradients", {})
    validations = _lines(history) or _with_steps(record.history)
    logged = [(step, scalars({"step": step, **values}, found)) for step, values in validations]
    return sorted([*_lines(training), *logged], key=itemgetter(0))


def scalars(point: dict[str, Any], gradients: dict[str, Any]) -> dict[str, float]:
    """Return a point of the history as W&B has it: every number that is one, by a path.

    The point's own by their names, the means of a site as `site/name`, a head's value as `site/layer/head/name`, that
    of a layer as `site/layer/name`, and of `gradients` those found at the point's step as `gradients/name`.
    """
    found = {name: value for name, value in point.items() if isinstance(value, int | float)}
    for site, means in point.get("diagnostics", {}).items():
        found |= {f"{site}/{name}": mean for name, mean in means.items() if mean is not None}
    for site, layers in point.get("heads", {}).items():
        for at, layer in enumerate(layers):
            found |= dict(_of_layer(f"{site}/{at}", layer))
    for traced in gradients.values():
        if traced["step"] == point["step"]:
            found |= {f"gradients/{name}": value for name, value in traced.items() if isinstance(value, float)}
    return found


def _of_layer(path: str, layer: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, values in layer.items():
        if name in NAMES and values is not None:
            yield from ((f"{path}/{head}/{name}", value) for head, value in enumerate(values) if value is not None)
        elif isinstance(values, float):
            yield f"{path}/{name}", values


def _lines(content: bytes | None) -> list[Point]:
    """Points of a file of JSON lines; none where it is absent or damaged."""
    try:
        return _with_steps([json.loads(line) for line in (content or b"").decode("utf-8").splitlines()])
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _with_steps(points: list[dict[str, Any]]) -> list[Point]:
    return [(int(point["step"]), {name: value for name, value in point.items() if name != "step"}) for point in points]
