"""A run as W&B shows it, made from its configuration, its record, its files and its place in sweeps.

Live runs and runs made from records take everything from here, so that they look the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from study import files
from study.config.overrides import flat
from study.config.pruning import TRAINING
from study.config.words import MAIN, changed, in_words
from study.corpora import Pair
from study.corpora.catalogue import KINDS
from study.errors import InputError
from study.records import Record
from study.schema import Frozen
from study.store import VALIDATIONS

RENAMED = {
    "train_loss": "train/loss",
    "lr": "train/lr",
    "tokens": "train/tokens",
    "valid_loss": "valid/loss",
    "valid_bleu": "valid/greedy_bleu",
    "valid_exact": "valid/greedy_exact",
    "valid_aer": "attention/aer",
}
"""Value of a point of the history ↦ its name in W&B. Validation is greedy; `valid/bleu` is the beam's, at the end."""
BEST = {"valid/greedy_bleu": "max", "valid/greedy_exact": "max", "valid/loss": "min", "attention/aer": "min"}
"""Best value of a curve, which the summary shows beside the scores of the tested step."""
PLACES = ".places.json"
"""File of a folder of runs: the places of its runs in sweeps."""
VARIABLE = "STUDY_PLACES"
"""Variable with the same text, for a process that makes one run."""
MAPS, MODEL = VALIDATIONS, "model.pt"
"""Files of a run: an attention map for each validation, and the trained model."""
SHOWN = 50
"""Number of translations in a table."""
LONGEST = 128
"""Letters of a name or a group in W&B."""
KEPT = ("record.json", "attention.json", "training.jsonl", "history.jsonl", MAPS, MODEL, "log.txt")
"""Files of the artifact of a run, beside its translations."""

Read = Callable[[str], bytes | None]
"""Returns the content of a file of a run by its name; None if there is no such file."""


class Place(Frozen):
    """The sweeps that declare a run, and its arm there, in words. Where one value must do, the first sweep's counts."""

    sweep: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    question: str = ""
    facet: str = ""
    arm: str = ""
    baseline: bool = False
    arms: dict[str, str] = {}
    """Sweep ↦ facet and arm in it."""


@dataclass(frozen=True)
class Label:
    """Facts of a run that W&B has from its beginning."""

    id: str
    name: str
    group: str | None
    tags: tuple[str, ...]
    job_type: str
    config: dict[str, Any]


@dataclass(frozen=True)
class Map:
    """An attention map, drawn when it is sent, and the alignment error rate of validation at its step."""

    shown: dict[str, Any]
    aer: float | None = None


@dataclass(frozen=True)
class Table:
    """A table, by rows."""

    columns: tuple[str, ...]
    rows: list[list[Any]]


Point = tuple[int, dict[str, Any]]
"""Step, and values by name: numbers, maps and tables."""


@dataclass(frozen=True)
class View:
    """A finished run as W&B shows it. What takes time to make is made when it is sent."""

    label: Label
    points: list[Point]
    summary: dict[str, Any]
    media: Callable[[], dict[str, Map | Table]] = field(compare=False)
    """Translations and map of the end."""
    read: Read = field(compare=False)
    began: float | None = None
    """When the training began, in seconds since 1970."""

    @property
    def sha256(self) -> str:
        """SHA-256 of all but the media, in hexadecimals."""
        tree = [asdict(self.label), self.points, self.summary]
        return hashlib.sha256(json.dumps(tree, sort_keys=True, default=asdict).encode()).hexdigest()

    @property
    def failed(self) -> bool:
        """Whether W&B is to show the run as failed."""
        return bool(self.summary["status"] == "failed")

    @property
    def last(self) -> int:
        """The last step."""
        return self.points[-1][0] if self.points else 0

    @property
    def end(self) -> Point:
        """A last point, one step after the others, with what is known at the end."""
        return self.last + 1, {"step": self.last, **self.media()}

    def time(self, step: int) -> dict[str, float]:
        """Return the time of a step as W&B names it. Steps are taken as equally long; empty if no time is known."""
        if self.began is None or "cost/wall_seconds" not in self.summary:
            return {}
        share = min(1.0, step / max(1, self.last))
        return {"_timestamp": self.began + share * self.summary["cost/wall_seconds"]}

    def files(self) -> dict[str, bytes]:
        """Return the files of the run that W&B keeps, by name."""
        splits = sorted({key.partition("/")[0] for key in self.summary if "/" in key})
        names = (*KEPT, *(f"{split}.{kind}.txt" for split in splits for kind in ("hyp", "nll")))
        return {name: content for name in names if (content := self.read(name)) is not None}


def view_of(record: Record, place: Place, read: Read) -> View:
    """Return a finished run as W&B is to show it.

    Args:
        record: its record.
        place: its place in sweeps.
        read: its files.
    """
    started = record.provenance and record.provenance.started_utc
    return View(
        label=label(record.id, record.config, place),
        points=points(read, record.history, record.diagnostics.get("gradients", {})),
        summary=results(record),
        media=lambda: media(record, read),
        read=read,
        began=datetime.fromisoformat(started).timestamp() if started else None,
    )


def label(identity: str, config: Mapping[str, Any], place: Place) -> Label:
    """Return what W&B shows of a run from its beginning.

    Args:
        identity: of the experiment.
        config: its fields, nested, as a record has them.
        place: its place in sweeps.
    """
    question = (config.get("pruning") or {}).get("question")
    seed = config.get("seed", 1)
    fields = changed(config)
    own = [name for name in fields if name != "seed" and name not in MAIN]
    words = (place.facet, place.arm) if place.sweep else tuple(in_words([*MAIN, *own], config))
    standing = place.model_dump(mode="json", exclude={"tiers"} if place.sweep else {*Place.model_fields} - {"sweep"})
    facts = {"experiment_id": identity, "arm_id": _slug(words, identity), "command": _command(fields, config)}
    return Label(
        id=identity,
        name=" · ".join((*filter(None, words), f"seed {seed}"))[-LONGEST:],
        group=f"{place.sweep[0]}: {place.arms[place.sweep[0]]}"[:LONGEST] if place.sweep else None,
        tags=(*place.sweep, *place.tiers),
        job_type="train" if question is None else "retrain" if question in TRAINING else "prune",
        config={**_without_none(config), **facts, **standing},
    )


def _slug(words: Sequence[str], identity: str) -> str:
    """Return a short name of an arm without blanks, by which W&B can group: `key-width-512-unscaled-c61874e4`."""
    plain = re.sub(r"[^a-z0-9.]+", "-", " ".join(words).lower().replace("√", "sqrt")).strip("-")
    return f"{plain[-40:].strip('-')}-{identity.rpartition('-s')[0].rpartition('-')[2]}"


def _command(fields: Sequence[str], config: Mapping[str, Any]) -> str:
    """Return the command line that makes a run: every field that has no default value."""
    values = {name: value for name, value in flat(config) if name in (*MAIN, *fields) and value is not None}
    return shlex.join(["study", "train", "--overrides-json", json.dumps(values, sort_keys=True)])


def place_of(folder: Path, identity: str) -> Place:
    """Return the place of a run that the environment, or the file of its folder of runs, gives; else nowhere."""
    try:
        if given := _PLACES.validate_json(os.environ.get(VARIABLE, "{}")).get(identity):
            return given
        return _places(folder / PLACES, (folder / PLACES).stat().st_mtime_ns).get(identity, Place())
    except (OSError, InputError, ValidationError):
        return Place()


_PLACES = TypeAdapter(dict[str, Place])


@lru_cache(maxsize=1)
def _places(path: Path, stamp: int) -> dict[str, Place]:
    return _PLACES.validate_json(files.read(path, below=path.parent))


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None, nested: W&B can neither filter nor group by names with dots."""
    kept = {name: _without_none(value) if isinstance(value, Mapping) else value for name, value in tree.items()}
    return {name: value for name, value in kept.items() if value is not None}


def points(
    read: Read, history: Sequence[dict[str, Any]] = (), gradients: Mapping[str, Any] | None = None
) -> list[Point]:
    """Return all points of a run, by step: training, validations with their maps.

    Args:
        read: the files of the run.
        history: the short history of its record, for a run without the file of the whole one.
        gradients: measures of gradients, as a record has them.
    """
    validations = lines(read("history.jsonl")) or _with_steps(history)
    maps = dict(lines(read(MAPS)))
    found = [
        (step, validation({"step": step, **values}, gradients or {}, maps.get(step))) for step, values in validations
    ]
    return sorted([*lines(read("training.jsonl")), *found], key=itemgetter(0))


def validation(point: dict[str, Any], gradients: Mapping[str, Any], shown: dict[str, Any] | None) -> dict[str, Any]:
    """Return a point of the history as W&B has it: numbers by their section, and the attention map.

    `train/…` and `valid/…`, the means of a site as `attention/SITE/NAME`, and of `gradients` those found at the point's
    step as `attention/gradients/NAME`.
    """
    found: dict[str, Any] = {RENAMED[name]: value for name, value in point.items() if name in RENAMED}
    found = {name: value for name, value in found.items() if value is not None} | _attention(point)
    for traced in gradients.values():
        if traced["step"] == point["step"]:
            values = {name: value for name, value in traced.items() if isinstance(value, float)}
            found |= {f"attention/gradients/{name}": value for name, value in values.items()}
    return found | ({"attention/map": Map(shown, found.get("attention/aer"))} if shown else {})


def _attention(point: Mapping[str, Any]) -> dict[str, float]:
    sites = point.get("diagnostics", {}).items()
    return {
        f"attention/{site}/{name}": mean for site, means in sites for name, mean in means.items() if mean is not None
    }


def results(record: Record) -> dict[str, Any]:
    """Return the summary of a run: its status, the tested step, scores and attention of that step, costs, origin."""
    found: dict[str, Any] = {"status": record.status, "error": record.error}
    if record.selection is not None:
        found["tested_step"] = record.selection.step
        for point in record.history:
            if point["step"] == record.selection.step:
                found |= _attention(point)
    found |= {f"{score.split}/{score.metric}": score.value for score in record.scores if score.subset is None}
    for section in (record.model, record.resources):
        found |= {f"cost/{name}": value for name, value in (section.model_dump() if section else {}).items()}
    if record.provenance is not None:
        names = ("git_commit", "git_dirty", "device", "started_utc")
        found |= {name: getattr(record.provenance, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def media(record: Record, read: Read) -> dict[str, Map | Table]:
    """Return the table of translations, and the attention map of the tested model."""
    shown = _shown(read("attention.json"))
    table = _translations(record, read, shown)
    return ({"test/translations": table} if table.rows else {}) | ({"test/map": Map(shown)} if shown else {})


def _translations(record: Record, read: Read, shown: dict[str, Any] | None) -> Table:
    """The first translations of each test split, and that of the sentence of the map.

    Source and reference are missing where the corpus is not at hand.
    """
    source = ((shown or {}).get("text") or {}).get("source")
    rows: list[list[Any]] = []
    for split in dict.fromkeys(score.split for score in record.scores if score.split != "valid"):
        if record.data is None or (content := read(f"{split}.hyp.txt")) is None:
            continue
        texts = content.decode("utf-8", "replace").removesuffix("\n").split("\n")
        found = _pairs(json.dumps([record.config["data"], split, record.data.files], sort_keys=True)) or ()
        pairs: Sequence[Pair | None] = found if len(found) == len(texts) else [None] * len(texts)
        mapped = next((row for row, pair in enumerate(pairs) if pair and pair.source == source), None)
        for row in sorted({*range(min(SHOWN, len(texts))), *([] if mapped is None else [mapped])}):
            pair, text = pairs[row], texts[row].strip()
            known = (pair.source, pair.target, text, text == pair.target.strip()) if pair else (None, None, text, None)
            rows.append([split, row + 1, *known, Map(shown) if shown and row == mapped else None])
            source = None if row == mapped else source  # the same sentence in another split has another map
    return Table(("split", "sentence", "source", "reference", "hypothesis", "exact", "map"), rows)


@lru_cache(maxsize=32)
def _pairs(given: str) -> list[Pair] | None:
    """The pairs of a split, from its section, name and checksums; None where they are not here, or no longer known."""
    section, split, checksums = json.loads(given)
    try:
        return KINDS[section["name"]].model_validate(section).pairs_of(split, checksums)
    except (KeyError, ValidationError, InputError, OSError):
        return None


def _shown(content: bytes | None) -> dict[str, Any] | None:
    """The attention map of the tested model, if there is one."""
    try:
        shown = json.loads(content or b"null")
        return shown if shown["weights"] else None
    except (ValueError, KeyError, TypeError):
        return None


def lines(content: bytes | None) -> list[Point]:
    """Points of a file of JSON lines, the last of each step; none where it is absent or damaged."""
    try:
        found = _with_steps([json.loads(line) for line in (content or b"").decode("utf-8").splitlines()])
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return sorted(dict(found).items())


def _with_steps(found: Sequence[dict[str, Any]]) -> list[Point]:
    return [(int(point["step"]), {name: value for name, value in point.items() if name != "step"}) for point in found]
