"""A run as W&B shows it, made from its configuration, its record, its files and its place in sweeps.

Live runs and runs made from records take everything from here, so that they look the same. An attention map is the
plain data of its file, which is drawn when it is sent.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from study import files
from study.config.overrides import Fields, flat
from study.config.pruning import TRAINING
from study.config.words import MAIN, changed, in_words
from study.corpora import Pair
from study.corpora.catalogue import KINDS
from study.errors import InputError
from study.schema import Frozen
from study.store.folder import MODEL, VALIDATIONS, Store
from study.store.records import Record
from study.store.rows import Tree

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
PLACES = ".places.json"
"""File of a folder of runs: the places of its runs in sweeps."""
MAPS = VALIDATIONS
"""File of a run: an attention map for each validation."""
SHOWN = 200
"""Number of translations of a split in a table."""
TRANSLATIONS = ("split", "sentence", "source", "reference", "hypothesis", "exact")
"""Columns of the table of translations."""
LONGEST, TAG, SLUG = 128, 64, 40
"""Letters of a name or a group in W&B, of a tag there, and of the words of an arm's short name."""
KEPT = ("record.json", "attention.json", "training.jsonl", "history.jsonl", MAPS, MODEL, "log.txt")
"""Files of the artifact of a run, beside its translations."""

Read = Callable[[str], bytes | None]
"""Returns the content of a file of a run by its name; None if there is no such file."""
Point = tuple[int, Tree]
"""Step, and values by name: numbers, maps and the table of translations."""


class Place(Frozen, extra="ignore"):
    """The sweeps that declare a run, and its arm there, in words. Where one value must do, the first sweep's counts."""

    sweep: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    question: str = ""
    facet: str = ""
    arm: str = ""
    baseline: bool = False


@dataclass(frozen=True)
class View:
    """A finished run as W&B shows it."""

    label: Tree
    points: list[Point]
    summary: Tree
    record: Record
    read: Read

    @property
    def sha256(self) -> str:
        """SHA-256 of all but the end and the files, in hexadecimals."""
        tree = [self.label, self.points, self.summary]
        return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()

    @property
    def failed(self) -> bool:
        """Whether W&B is to show the run as failed."""
        return self.record.status == "failed"

    @property
    def last(self) -> int:
        """The last step."""
        return self.points[-1][0] if self.points else 0

    def end(self) -> Point:
        """Return a last point, one step after the others: translations, and the attention map of the tested model."""
        values: Tree = {"step": self.last}
        if rows := translations(self.record, self.read):
            values["test/translations"] = rows
        attention = json.loads(self.read("attention.json") or b"null")
        return self.last + 1, values | ({"test/map": attention} if attention else {})

    def time(self, step: int) -> dict[str, float]:
        """Return the time of a step as W&B names it. Steps are taken as equally long; empty if no time is known."""
        if self.record.provenance is None or self.record.resources is None:
            return {}
        began = datetime.fromisoformat(self.record.provenance.started_utc).timestamp()
        return {"_timestamp": began + min(1.0, step / max(1, self.last)) * self.record.resources.wall_seconds}

    def files(self) -> dict[str, bytes]:
        """Return the files of the run that W&B keeps, by name."""
        splits = sorted({score.split for score in self.record.scores})
        names = (*KEPT, *(f"{split}.{kind}.txt" for split in splits for kind in ("hyp", "nll")))
        return {name: content for name in names if (content := self.read(name)) is not None}


def view_of(store: Store, identity: str, place: Place | None = None) -> View:
    """Return a run that has a record as W&B is to show it.

    Args:
        store: its folder of runs.
        identity: the run.
        place: its place in sweeps (default: see `place_of`).

    Raises:
        InputError: its record cannot be read.
    """

    def read(name: str) -> bytes | None:
        if name == "record.json":
            return store.text(identity).encode()
        return store.model(identity) if name == MODEL else store.content(identity, name)

    record = store.record(identity)
    series = points(read, record.history, record.diagnostics.get("gradients", {}))
    labels = label(record.id, record.config, place or place_of(store.folder, identity))
    return View(labels, series, results(record), record, read)


def label(identity: str, config: Fields, place: Place) -> Tree:
    """Return what W&B has of a run from its beginning, as `wandb.init` takes it.

    Args:
        identity: of the experiment.
        config: its fields, nested, as a record has them.
        place: its place in sweeps.
    """
    question = (config.get("pruning") or {}).get("question")
    fields = changed(config)
    varied = [name for name in fields if name != "seed" and name not in MAIN]
    varied.sort(key=lambda name: not name.startswith("model."))  # the end of a long name is cut
    named = (place.facet, place.arm) if place.sweep else tuple(in_words([*MAIN, *varied], config))
    words, arm = " · ".join(filter(None, named)), identity.rpartition("-s")[0].rpartition("-")[2]
    # A short name of the arm, by which W&B can group: `key-width-512-unscaled-c61874e4`.
    plain = re.sub(r"[^\w.]+", "-", fitted(words.lower().replace("√", "sqrt"), SLUG)).strip("-")
    values = {name: value for name, value in flat(config) if name in (*MAIN, *fields) and value is not None}
    facts = {
        "experiment_id": identity,
        "arm_id": f"{plain}-{arm}",
        "command": shlex.join(["study", "train", "--overrides-json", json.dumps(values, sort_keys=True)]),
    }
    standing = place.model_dump(mode="json", exclude={"tiers"} if place.sweep else {*Place.model_fields} - {"sweep"})
    return {
        "id": identity,
        "name": fitted(words, LONGEST, f" · {arm}", f" · seed {config.get('seed', 1)}"),
        "group": fitted(f"{place.sweep[0]}: {words}", LONGEST, f" · {arm}") if place.sweep else None,
        "tags": [*place.sweep, *place.tiers],
        "job_type": "train" if question is None else "retrain" if question in TRAINING else "prune",
        "config": {**_without_none(config), **facts, **standing},
    }


def fitted(text: str, longest: int, instead: str = "", end: str = "") -> str:
    """Return a text and its end in so many letters. If they are more, the text is cut between words.

    Args:
        text: the text.
        longest: number of letters.
        instead: stands for what is cut, so that two texts that begin alike stay apart.
        end: is never cut.
    """
    if len(text + end) <= longest:
        return text + end
    kept = text[: max(0, longest - len(f"…{instead}{end}"))]
    if not text[len(kept)].isspace():
        kept = kept.rpartition(" ")[0] or kept  # one long word is cut anywhere
    return f"{kept.rstrip(' ·:,')}…{instead}{end}"


def _without_none(tree: Fields) -> Tree:
    """Return the fields that are not None, nested: W&B can neither filter nor group by names with dots."""
    kept = {name: _without_none(value) if isinstance(value, Mapping) else value for name, value in tree.items()}
    return {name: value for name, value in kept.items() if value is not None}


_PLACES = TypeAdapter(dict[str, Place])


def place_of(folder: Path, identity: str) -> Place:
    """Return the place of a run that the file of its folder of runs gives; else nowhere."""
    try:
        return _PLACES.validate_json(files.read(folder / PLACES, below=folder)).get(identity, Place())
    except (OSError, InputError, ValidationError):
        return Place()


def points(read: Read, history: Sequence[Tree] = (), gradients: Fields | None = None) -> list[Point]:
    """Return all points of a run, by step: training, validations with their maps.

    Args:
        read: the files of the run.
        history: the short history of its record, for a run without the file of the whole one.
        gradients: measures of gradients, as a record has them.
    """
    maps = dict(files.json_lines(read(MAPS)))
    validations = files.json_lines(read("history.jsonl")) or [(point["step"], point) for point in history]
    validated = [(step, validation(step, point, gradients or {}, maps.get(step))) for step, point in validations]
    return sorted([*files.json_lines(read("training.jsonl")), *validated], key=itemgetter(0))


def validation(step: int, point: Fields, gradients: Fields, shown: Tree | None) -> Tree:
    """Return a point of the history as W&B has it: numbers by their section, and the attention map.

    `train/…` and `valid/…`, the means of a site as `attention/SITE/NAME`, and of `gradients` those found at the point's
    step as `attention/gradients/NAME`.
    """
    values: Tree = {RENAMED[name]: value for name, value in point.items() if name in RENAMED}
    values = {name: value for name, value in values.items() if value is not None} | _attention(point)
    for traced in gradients.values():
        if traced["step"] == step:
            values |= {f"attention/gradients/{name}": v for name, v in traced.items() if isinstance(v, float)}
    return values | ({"attention/map": {**shown, "aer": values.get("attention/aer")}} if shown else {})


def _attention(point: Fields) -> dict[str, float]:
    sites = point.get("diagnostics", {}).items()
    return {f"attention/{site}/{name}": v for site, means in sites for name, v in means.items() if v is not None}


def results(record: Record) -> Tree:
    """Return the summary of a run: its status, the tested step, scores and attention of that step, costs, origin."""
    values: Tree = {"status": record.status, "error": record.error}
    if record.selection is not None:
        values["tested_step"] = record.selection.step
        for point in record.history:
            if point["step"] == record.selection.step:
                values |= _attention(point)
    values |= {f"{score.split}/{score.metric}": score.value for score in record.scores if score.subset is None}
    for section in (record.model, record.resources):
        values |= {f"cost/{name}": value for name, value in (section.model_dump() if section else {}).items()}
    for name in ("git_commit", "git_dirty", "device", "started_utc"):
        values[name] = getattr(record.provenance, name, None)
    return {name: value for name, value in values.items() if value is not None}


def translations(record: Record, read: Read) -> list[list[Any]]:
    """Return rows of `TRANSLATIONS`, the first of each test split.

    Source and reference are missing where the corpus is not at hand.
    """
    rows = []
    for split in dict.fromkeys(score.split for score in record.scores if score.split != "valid"):
        texts = (read(f"{split}.hyp.txt") or b"").decode("utf-8", "replace").split("\n")[:-1]
        data = record.data and json.dumps([record.config["data"], split, record.data.files], sort_keys=True)
        pairs = (_pairs(data) if data else None) or []
        for row, text in enumerate(texts[:SHOWN]):
            source, target = (pairs[row].source, pairs[row].target) if len(pairs) == len(texts) else (None, None)
            exact = None if target is None else text.strip() == target.strip()
            rows.append([split, row + 1, source, target, text.strip(), exact])
    return rows


@lru_cache(maxsize=32)
def _pairs(given: str) -> list[Pair] | None:
    """The pairs of a split, from its section, name and checksums; None where they are not here, or no longer known."""
    section, split, checksums = json.loads(given)
    try:
        return KINDS[section["name"]].model_validate(section).pairs_of(split, checksums)
    except (KeyError, ValidationError, InputError, OSError):
        return None
