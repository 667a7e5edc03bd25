"""A run as W&B shows it, made from its configuration, its record, its files and its place in sweeps.

Live runs and runs made from records take everything from here, so that they look the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
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

NAMES = (
    *("logit_mean", "logit_sd", "logit_max", "entropy", "information", "spread", "max_weight", "softmax_gradient"),
    *("query_norm", "key_norm", "cosine", "context_norm", "context_slope"),
    *("gold_mass", "argmax_on_gold", "last_two_mass", "end_mass", "diagonal_mass", "symmetry"),
)
"""Names of all measures of a head, in the order in which they are written."""
SHARES = ("entropy", "max_weight", "gold_mass", "argmax_on_gold", "last_two_mass", "end_mass", "diagonal_mass")
"""Measures from 0 to 1, which one scale of colours can show."""
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
MAPS = "maps.jsonl"
"""File of a run: an attention map for each validation."""
SHOWN = 50
"""Number of translations in a table."""
LONGEST = 128
"""Letters of a name or a group in W&B."""
KEPT = ("record.json", "attention.json", "training.jsonl", "history.jsonl")
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


@dataclass(frozen=True)
class Heads:
    """Measures of the heads of a site at one step, drawn as a heat map: a row per head, a column per measure."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: list[list[float | None]]


Medium = Map | Table | Heads
Point = tuple[int, dict[str, Any]]
"""Step, and values by name: numbers and media."""


@dataclass(frozen=True)
class View:
    """A finished run as W&B shows it. What takes time to make is made when it is sent."""

    label: Label
    points: list[Point]
    summary: dict[str, Any]
    media: Callable[[], dict[str, Medium]] = field(compare=False)
    """Tables, maps and heat maps of the end."""
    read: Read = field(compare=False)
    folder: Path | None = None
    """Its folder; None for a published run."""

    @property
    def sha256(self) -> str:
        """SHA-256 of all but the media, in hexadecimals."""
        told = [asdict(self.label), self.points, self.summary]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=asdict).encode()).hexdigest()

    @property
    def state(self) -> str:
        """W&B's word for the end of the run."""
        return "failed" if self.summary["status"] == "failed" else "finished"

    @property
    def end(self) -> Point:
        """A last point, one step after the others, with what is known at the end."""
        last = self.points[-1][0] if self.points else 0
        return last + 1, {"step": last, **self.media()}

    def files(self) -> dict[str, bytes]:
        """Return the files of the run that W&B keeps, by name."""
        scored = {key.partition("/")[0] for key in self.summary if "/" in key}
        names = (*KEPT, *(f"{split}.hyp.txt" for split in sorted(scored)))
        return {name: content for name in names if (content := self.read(name)) is not None}


def view_of(record: Record, place: Place, read: Read, folder: Path | None = None) -> View:
    """Return a finished run as W&B is to show it.

    Args:
        record: its record.
        place: its place in sweeps.
        read: its files.
        folder: its folder; None for a published run.
    """
    return View(
        label=label(record.id, record.config, place),
        points=points(record, read),
        summary=results(record),
        media=lambda: media(record, read),
        read=read,
        folder=folder,
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
    own = [name for name in changed(config) if name != "seed" and name not in MAIN]
    words = (place.facet, place.arm) if place.sweep else in_words([*MAIN, *own], config)
    standing = place.model_dump(mode="json", exclude={"tiers"} if place.sweep else {*Place.model_fields} - {"sweep"})
    return Label(
        id=identity,
        name=" · ".join((*filter(None, words), f"seed {seed}"))[-LONGEST:],
        group=f"{place.sweep[0]}: {place.arms[place.sweep[0]]}"[:LONGEST] if place.sweep else None,
        tags=(*place.sweep, *place.tiers),
        job_type="train" if question is None else "retrain" if question in TRAINING else "prune",
        config={**_fields(config), "experiment_id": identity, **standing},
    )


def place_of(folder: Path, identity: str) -> Place:
    """Return the place of a run that the environment, or the file of its folder of runs, gives; else nowhere."""
    try:
        if told := _PLACES.validate_json(os.environ.get(VARIABLE, "{}")).get(identity):
            return told
        return _places(folder / PLACES, (folder / PLACES).stat().st_mtime_ns).get(identity, Place())
    except (OSError, InputError, ValidationError):
        return Place()


_PLACES = TypeAdapter(dict[str, Place])


@lru_cache(maxsize=1)
def _places(path: Path, stamp: int) -> dict[str, Place]:
    return _PLACES.validate_json(files.read(path, below=path.parent))


def _fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None by their dotted names, as sweep files have them."""
    return {name: value for name, value in flat(config) if value is not None}


def points(record: Record, read: Read) -> list[Point]:
    """Return all points of a run, by step: training, validations with their maps.

    Args:
        record: the record. Its short history is used where there is no whole one.
        read: the files of the run.
    """
    found = record.diagnostics.get("gradients", {})
    validations = lines(read("history.jsonl")) or _with_steps(record.history)
    maps = dict(lines(read(MAPS)))
    logged = [
        (step, (said := scalars({"step": step, **values}, found)) | mapped(maps.get(step), said))
        for step, values in validations
    ]
    return sorted([*lines(read("training.jsonl")), *logged], key=itemgetter(0))


def mapped(shown: dict[str, Any] | None, scalars: Mapping[str, Any]) -> dict[str, Map]:
    """Return the attention map of a validation, if there is one, by its name in W&B; `scalars` are its numbers."""
    return {"attention/map": Map(shown, scalars.get("attention/aer"))} if shown else {}


def scalars(point: dict[str, Any], gradients: dict[str, Any]) -> dict[str, float]:
    """Return a point of the history as W&B has it: numbers by their section.

    `train/…` and `valid/…`, the means of a site as `attention/SITE/NAME`, and of `gradients` those found at the point's
    step as `attention/gradients/NAME`.
    """
    found = {RENAMED[name]: value for name, value in point.items() if name in RENAMED and value is not None}
    found |= _attention(point)
    for traced in gradients.values():
        if traced["step"] == point["step"]:
            of = {name: value for name, value in traced.items() if isinstance(value, float)}
            found |= {f"attention/gradients/{name}": value for name, value in of.items()}
    return found


def _attention(point: Mapping[str, Any]) -> dict[str, float]:
    sites = point.get("diagnostics", {}).items()
    return {
        f"attention/{site}/{name}": mean for site, means in sites for name, mean in means.items() if mean is not None
    }


def summary(record: Record) -> dict[str, float | None]:
    """Scores of whole splits as `<split>/<metric>`, the names that a sweep file's metric uses."""
    return {f"{score.split}/{score.metric}": score.value for score in record.scores if score.subset is None}


def results(record: Record) -> dict[str, Any]:
    """Return the summary of a run: its status, the tested step, scores and attention of that step, costs, origin."""
    found: dict[str, Any] = {"status": record.status, "error": record.error}
    if record.selection is not None:
        found["tested_step"] = record.selection.step
        for point in record.history:
            if point["step"] == record.selection.step:
                found |= _attention(point)
    found |= summary(record)
    for section in (record.model, record.resources):
        found |= {f"cost/{name}": value for name, value in (section.model_dump() if section else {}).items()}
    if record.provenance is not None:
        found |= {name: getattr(record.provenance, name) for name in ("git_commit", "git_dirty", "device")}
    return {name: value for name, value in found.items() if value is not None}


def media(record: Record, read: Read) -> dict[str, Medium]:
    """Return tables, a heat map of the heads of each site, and a map.

    The tables have the heads of all sites, translations of all test splits, and scores by subset. Each is an artifact
    of its own in W&B, so there are few.
    """
    shown = _shown(read("attention.json"))
    subsets = [[s.split, s.metric, s.subset, s.value, s.n] for s in record.scores if s.subset is not None]
    tables = {
        "attention/heads": _heads(record, read),
        "test/translations": _translations(record, read, shown),
        "test/subsets": Table(("split", "metric", "subset", "value", "n"), subsets),
    }
    found: dict[str, Medium] = {name: table for name, table in tables.items() if table.rows}
    found |= {f"attention/heads_{site}": shares for site, shares in _shares(tables["attention/heads"])}
    return found | ({"test/map": Map(shown)} if shown else {})


def _heads(record: Record, read: Read) -> Table:
    """A row for each head of each site, at every validation where the whole history is there, else at the last."""
    history = [(step, values.get("heads", {})) for step, values in lines(read("history.jsonl"))]
    if not history and record.history:
        history = [(record.history[-1]["step"], record.diagnostics)]
    rows: list[tuple[list[Any], dict[str, float]]] = []
    for step, sites in history:
        for site, layers in sites.items():
            for at, layer in enumerate(layers if site not in ("gradients", "pruning") else ()):
                heads = {name: values for name, values in layer.items() if name in NAMES and values is not None}
                whole = {name: value for name, value in layer.items() if isinstance(value, float)}
                for head in range(max(map(len, heads.values()), default=0)):
                    own = {name: values[head] for name, values in heads.items() if values[head] is not None}
                    rows.append(([step, site, at, head], own | whole))
    known = {name for _, values in rows for name in values}
    names = [*(name for name in NAMES if name in known), *sorted(known - {*NAMES})]
    return Table(("step", "site", "layer", "head", *names), [[*row, *map(values.get, names)] for row, values in rows])


def _shares(heads: Table) -> Iterator[tuple[str, Heads]]:
    """Yield each site that has several heads, with the measures in `SHARES` of the last step."""
    rows = [dict(zip(heads.columns, row, strict=True)) for row in heads.rows]
    for site in dict.fromkeys(row["site"] for row in rows):
        step = max(row["step"] for row in rows if row["site"] == site)
        own = [row for row in rows if (row["site"], row["step"]) == (site, step)]
        names = tuple(name for name in SHARES if any(row.get(name) is not None for row in own))
        if len(own) > 1 and names:
            labels = tuple(f"layer {row['layer']}, head {row['head']}" for row in own)
            values = [[row[name] for name in names] for row in own]
            yield site, Heads(f"{site.replace('_', ' ')}, step {step}", labels, names, values)


def _translations(record: Record, read: Read, shown: dict[str, Any] | None) -> Table:
    """The first translations of each test split, and that of the sentence of the map.

    Source and reference are missing where the corpus is not at hand.
    """
    source = ((shown or {}).get("text") or {}).get("source")
    rows: list[list[Any]] = []
    if record.data is None:
        return Table((), [])
    for split in dict.fromkeys(score.split for score in record.scores if score.split != "valid"):
        if (content := read(f"{split}.hyp.txt")) is None:
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
def _pairs(told: str) -> list[Pair] | None:
    """The pairs of a split, from its section, name and checksums; None where they are not here, or no longer known."""
    section, split, checksums = json.loads(told)
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


def _with_steps(found: list[dict[str, Any]]) -> list[Point]:
    return [(int(point["step"]), {name: value for name, value in point.items() if name != "step"}) for point in found]
