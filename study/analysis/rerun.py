"""Comparison of a run with its rerun: every number that does not measure time, and the likely cause of a difference."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from study.files import parse_json
from study.store.folder import ATTENTION, Store
from study.store.records import Record

MISSING = "nothing"
SCORE = ("split", "metric", "subset")
"""Fields that name a score."""
OWN = ("attention-ablation", "wandb")
"""Packages whose versions change no number of a run under one protocol."""
RETIRED = re.compile(
    "argmax_on_gold|by_distance|context_.*|cosine|diagonal_mass|far_near_distance|key_norm|length_slope|logit_max"
    "|logit_mean|logit_sd_step_0|query_norm|softmax_gradient|spread|state_.*|symmetry"
    "|.*/(nll_by_length.*|onset|beyond|attends_mass|attends_head)"
)
"""Diagnostics and scores that older records have and runs no longer measure."""
PER_STEP, TIMES = "training.jsonl", ("train/tokens_per_second",)
"""File with the loss of every 20th step, and what it measures in time."""
FACTS = {
    "python": "Python",
    "device": "device",
    "device_count": "devices",
    "threads": "threads",
    "precision": "precision",
    "instructions": "instruction set",
}
"""Fields of provenance that change numbers, in words. Older records lack threads and instructions."""


def differences(before: Store, now: Store, identity: str) -> Iterator[str]:
    """Yield a line for each difference of a rerun from its run, in the order in which they arise while it trains.

    Compared is all that the first record holds, except times, provenance and W&B: data, sizes of the model, losses, the
    history of validations, the tested step, scores, translations, diagnostics and the attention map. What only the
    rerun has is no difference, because later versions record more.

    Raises:
        InputError: a record or a file of them cannot be read.
    """
    record = before.record(identity)
    files = dict.fromkeys(score.hypotheses for score in record.scores if score.hypotheses)
    names = [*files, *record.per_sentence, ATTENTION]
    yield from _differing("", _numbers(before, identity, names), _numbers(now, identity, names))


def _numbers(store: Store, identity: str, names: list[str]) -> dict[str, Any]:
    """Return what is compared of a run, in the order in which it arises; a line of a file by its number."""
    tree = store.record(identity).model_dump(mode="json")
    where = f"{store.where(identity)}: {PER_STEP}"
    numbers = {name: tree[name] for name in ("protocol", "config", "data", "model")}
    losses = []
    for line in (store.content(identity, PER_STEP) or b"").splitlines():
        step = parse_json(line, where)
        for name in TIMES:
            step.pop(name, None)
        losses.append(step)
    if losses:
        numbers["losses"] = losses
    for name in ("history", "status", "error", "selection"):
        numbers[name] = tree[name]
    numbers["scores"] = {"/".join(filter(None, map(score.get, SCORE))): score for score in tree["scores"]}
    for name in names:
        content = store.content(identity, name)
        if content is not None:
            for number, text in enumerate(content.decode("utf-8", "replace").split("\n"), 1):
                numbers[f"{name}, line {number}"] = text
    numbers["diagnostics"] = tree["diagnostics"]
    return numbers


def _differing(where: str, before: Any, now: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name, value in before.items():
            if name not in now and RETIRED.fullmatch(name):
                continue
            yield from _differing(f"{where}.{name}".removeprefix("."), value, now.get(name, MISSING))
    elif isinstance(before, list) and isinstance(now, list):
        for number, (old, new) in enumerate(itertools.zip_longest(before, now, fillvalue=MISSING)):
            step = f" (step {old['step']})" if isinstance(old, dict) and "step" in old else ""
            yield from _differing(f"{where}[{number}]{step}", old, new)
    elif type(before) is not type(now) or before != now:
        yield f"{where}: {_short(before)} before, {_short(now)} now"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:99]}…"


def cause(first: Record, second: Record) -> str:
    """Return the likely cause of a difference: what the two runs do not share.

    Two processors of one name may round differently, because they have other instruction sets.
    """
    if first.data and second.data and first.data.files != second.data.files:
        return "the data: their SHA-256 differ"
    before, now = first.provenance, second.provenance
    if before is None or now is None:
        return "not known: a record has no provenance"
    pairs: dict[str, tuple[Any, Any]] = {}
    for name, words in FACTS.items():
        pairs[words] = getattr(before, name, None), getattr(now, name, None)
    for name, version in before.packages.items():
        if name not in OWN:
            pairs[name] = version, now.packages.get(name)
    pairs["commit"] = str(before.git_commit)[:12], str(now.git_commit)[:12]
    causes = [f"{name} {old or 'not recorded'} → {new}" for name, (old, new) in pairs.items() if old != new]
    if now.git_dirty:
        causes.append("code that is not committed")
    if not causes and not before.deterministic:
        return "operations that are not deterministic: such a run differs from call to call"
    return "; ".join(causes) or "not known: versions, device, threads and code are the same"
