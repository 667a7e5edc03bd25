"""The identity of an experiment: a hash of the resolved fields that decide its numbers.

Left out are None, every field at the default it was introduced with (so that adding a field later leaves old
identities alone), the seed (kept apart, so that seeds of one arm share a hash), and what does not decide a
number: folders, devices, workers, logging. A default that is ever changed keeps its old value here through
`json_schema_extra={"introduced": value}` on the field.
"""

import hashlib
import json
from functools import cache
from typing import Any

from pydantic import BaseModel

from study.config.experiment import Experiment

UNRECORDED = ("trainer", "tracking", "out", "data.folder")
"""Fields that decide no number and may contain a path or a name."""
NOT_SCIENTIFIC = ("seed", *UNRECORDED)
ALWAYS = ("protocol", "data.name", "data.version", "model.family", "training.precision", "pruning.question")


def config_hash(experiment: Experiment) -> str:
    """SHA-256 (hexadecimal) of the scientific fields, without the seed."""
    return hashlib.sha256(json.dumps(scientific(experiment), sort_keys=True).encode()).hexdigest()


def experiment_id(experiment: Experiment) -> str:
    """`<data>-<family>-<score>-<8 hex of the hash>-s<seed>`, a name for folders, records and W&B."""
    return f"{arm_id(experiment)}-s{experiment.seed}"


def arm_id(experiment: Experiment) -> str:
    """Return the identity without the seed.

    The score is that of the site at which target tokens see the source, or the name of the class that computes it.
    """
    site = experiment.model.attention.aligning
    score = (site.site if site.whole else site.score).partition("@")[0].lower()
    words = (experiment.data.name, experiment.model.family, score)
    return f"{'-'.join(words)}-{config_hash(experiment)[:8]}"


def scientific(experiment: Experiment) -> dict[str, Any]:
    """Return the fields that are hashed, flat: dotted name ↦ value."""
    kept: dict[str, Any] = {}
    _collect(experiment, "", kept)
    return kept


def trained(experiment: Experiment) -> str:
    """Return what decides the training, as text: the hashed fields without those that change no weight.

    These are the choice of the tested update, and what a model names (`without_effect`). Runs of one seed with the same
    text have the same weights at every update.
    """
    model = experiment.model
    without_effect = [f"model.{name}" for name in getattr(model, "without_effect", ())]
    fields = scientific(experiment) | dict.fromkeys(["training.select", *without_effect])
    return json.dumps(fields, sort_keys=True)


def recorded(experiment: Experiment) -> dict[str, Any]:
    """Return the fields that a record holds, nested: all but `UNRECORDED`."""
    tree = experiment.model_dump(mode="json")
    for name in UNRECORDED:
        section, _, field = name.rpartition(".")
        (tree[section] if section else tree).pop(field, None)
    return tree


def _collect(section: BaseModel, prefix: str, kept: dict[str, Any]) -> None:
    for name, introduced in _introduced(type(section)).items():
        value, dotted = getattr(section, name), prefix + name
        if dotted in NOT_SCIENTIFIC:
            continue
        if isinstance(value, BaseModel):
            _collect(value, f"{dotted}.", kept)
        elif dotted in ALWAYS or (value is not None and value != introduced):
            kept[dotted] = value


@cache
def _introduced(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the defaults with which the fields of a section were introduced."""
    defaults: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        extra = field.json_schema_extra
        defaults[name] = extra.get("introduced", field.default) if isinstance(extra, dict) else field.default
    return defaults
