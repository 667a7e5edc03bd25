"""Comparison of a run with its rerun: every number that does not measure time, and the likely cause of a difference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from study.records import Record
from study.store import ATTENTION, Store

MISSING = "nothing"
OWN = ("attention-ablation", "wandb")
"""Packages whose versions change no number of a run under one protocol."""
RETIRED = re.compile(
    "argmax_on_gold|by_distance|context_.*|cosine|diagonal_mass|far_near_distance|key_norm|length_slope|logit_mean"
    "|query_norm|softmax_gradient|state_.*|symmetry"
)
"""Diagnostics that older records have and runs no longer measure."""
PER_STEP, TIMES = "training.jsonl", ("train/tokens_per_second",)
"""File with the loss of every 20th step, and what it measures in time."""


class RerunDifference(NamedTuple):
    """One place in which a rerun differs."""

    where: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.where}: {_short(self.before)} before, {_short(self.now)} now"


def differences(before: Store, now: Store, identity: str) -> Iterator[RerunDifference]:
    """Yield the differences of a rerun from its run, in the order in which they arise while it trains.

    Compared is all that the first record holds, except times, provenance and W&B: data, sizes of the model, losses, the
    history of validations, the tested step, scores, translations, diagnostics and the attention map. What only the
    rerun has is no difference, because later versions record more.

    Raises:
        InputError: a record or a file of them cannot be read.
    """
    first = before.record(identity)
    old, new = (record.model_dump(mode="json") for record in (first, now.record(identity)))
    for name in ("protocol", "config", "data", "model"):
        yield from _differing(name, old[name], new[name])
    yield from _steps(before, now, identity)
    for name in ("history", "status", "error", "selection"):
        yield from _differing(name, old[name], new[name])
    names = ("split", "metric", "subset")
    scores = [{"/".join(s[name] for name in names if s[name]): s for s in tree["scores"]} for tree in (old, new)]
    yield from _differing("scores", *scores)
    yield from _files(before, now, first)
    yield from _differing("diagnostics", old["diagnostics"], new["diagnostics"])


def _differing(where: str, before: Any, now: Any) -> Iterator[RerunDifference]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name, value in before.items():
            if name not in now and RETIRED.fullmatch(name):
                continue
            yield from _differing(f"{where}.{name}", value, now.get(name, MISSING))
    elif isinstance(before, list) and isinstance(now, list):
        for number, value in enumerate(before):
            step = f" (step {value['step']})" if isinstance(value, dict) and "step" in value else ""
            yield from _differing(f"{where}[{number}]{step}", value, now[number] if number < len(now) else MISSING)
        if len(now) > len(before):
            yield RerunDifference(f"{where}[{len(before)}]", MISSING, now[len(before)])
    elif type(before) is not type(now) or before != now:
        yield RerunDifference(where, before, now)


def _steps(before: Store, now: Store, identity: str) -> Iterator[RerunDifference]:
    """Loss, rate and gradient by step, if both runs have them."""
    texts = [store.content(identity, PER_STEP) for store in (before, now)]
    if None not in texts:
        points = [[json.loads(line) for line in (text or b"").splitlines()] for text in texts]
        yield from _differing(
            "losses", *([{k: v for k, v in p.items() if k not in TIMES} for p in some] for some in points)
        )


def _files(before: Store, now: Store, record: Record) -> Iterator[RerunDifference]:
    """Yield the first line that differs of each file of translations, and the attention map."""
    named = dict.fromkeys(score.hypotheses for score in record.scores if score.hypotheses)
    for name in (*named, *record.per_sentence, ATTENTION):
        contents = [store.content(record.id, name) for store in (before, now)]
        if contents[0] is None or contents[0] == contents[1]:
            continue
        lines = [content.decode("utf-8", "replace").split("\n") if content else [] for content in contents]
        at = next((i for i, pair in enumerate(zip(*lines, strict=False)) if pair[0] != pair[1]), min(map(len, lines)))
        shown = [some[at] if at < len(some) else MISSING for some in lines]
        yield RerunDifference(f"{name}, line {at + 1}", *shown)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:99]}…"


def cause(first: Record, second: Record) -> str:
    """Return the likely cause of a difference: what the two runs do not share, the likeliest first."""
    if first.data and second.data and first.data.files != second.data.files:
        return "the data: their SHA-256 differ"
    before, now = first.provenance, second.provenance
    if before is None or now is None:
        return "not known: a record has no provenance"
    facts: dict[str, tuple[Any, Any]] = {"Python": (before.python, now.python)}
    facts |= {name: (old, now.packages.get(name)) for name, old in before.packages.items() if name not in OWN}
    facts |= {"device": (before.device, now.device), "devices": (before.device_count, now.device_count)}
    facts |= {"threads": (before.threads, now.threads)} if before.threads is not None else {}
    facts |= {"instructions": (before.instructions, now.instructions)} if before.instructions else {}
    facts |= {"precision": (before.precision, now.precision)}
    if found := [f"{name} {old} → {new}" for name, (old, new) in facts.items() if old != new]:
        return "; ".join(found)
    commits = [" and ".join(str(commit)[:12] for commit in made.of_calls("git_commit")) for made in (before, now)]
    if commits[0] != commits[1] or now.git_dirty:
        changed = [f"commit {' → '.join(commits)}"] * (commits[0] != commits[1])
        return ", ".join(["the code", *changed, *["changes without a commit"] * bool(now.git_dirty)])
    if not (before.deterministic and now.deterministic):
        return "operations that are not deterministic: such a run differs from call to call"
    return "not known: versions, device, threads and code are the same. Perhaps a file was changed by hand"
