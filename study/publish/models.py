"""Published models: `results/models/`, with the SHA-256 of each file in `models.json`.

A few runs that figures and documents show have their trained model here, so that it can translate and draw maps without
training. A model is published only if its run was trained again and was equal to the published record. Files are those
that `study translate` loads; one of more than a megabyte is cut into parts, `<id>.pt.1`, `<id>.pt.2`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from study import files
from study.publish.results import Results
from study.records import Section, canonical
from study.store import MODELS, read_section, sha256

FILE = "models.json"
MAPS = "maps"
"""Folder of the attention maps of published models."""
PART = 10**6
"""Bytes of the largest file."""


class ModelFile(Section):
    """One published model."""

    sha256: str = Field(description="SHA-256 of the file, its parts put together.")
    bytes: int = Field(description="Its size.")


class ModelList(Section):
    """All published models."""

    schema_version: Literal[1] = Field(1, description="Version of this schema.")
    models: dict[str, ModelFile] = Field(description="Model by id of its run.")


def listed(results: Results) -> dict[str, ModelFile]:
    """Return the published models by id.

    Raises:
        InputError: the list cannot be read.
    """
    path = results.root / MODELS / FILE
    return read_section(ModelList, path, "Restore it.").models if path.is_file() else {}


def publish_model(results: Results, identity: str, content: bytes) -> None:
    """Write a model and its entry in the list; an older one of this run is replaced.

    Raises:
        InputError: the list cannot be read.
        OSError: a file cannot be written.
    """
    known, folder = listed(results), results.root / MODELS
    for path in folder.glob(f"{identity}.pt*"):
        path.unlink()
    parts = [content[i : i + PART] for i in range(0, len(content), PART)]
    for number, part in enumerate(parts, 1):
        files.write(folder / f"{identity}.pt{f'.{number}' if len(parts) > 1 else ''}", part)
    known[identity] = ModelFile(sha256=sha256(content), bytes=len(content))
    whole = ModelList(models=dict(sorted(known.items())))
    files.write(folder / FILE, canonical(whole.model_dump(mode="json")))


def model_problems(results: Results) -> Iterator[str]:
    """Yield what is wrong with the published models: changed, absent, of no published run, or not in the list.

    Raises:
        InputError: the list cannot be read.
    """
    known, folder = listed(results), results.root / MODELS
    for identity, model in known.items():
        content = results.store.model(identity)
        if content is None:
            yield f"{folder}: {identity}.pt: expected a file, since {FILE} names it, got none. Restore it."
        elif sha256(content) != model.sha256:
            yield f"{folder / identity}.pt: SHA-256: expected the one in {FILE}, got another. Restore the file."
        if identity not in results.store:
            yield f"{folder / identity}.pt: expected the model of a published run, got another one. Remove it."
    for path in sorted(folder.glob("*")):
        if path.name != FILE and path.name.partition(".pt")[0] not in known:
            yield f"{path}: expected a file that {FILE} names, got a stray one. Remove it."


AGAIN = "Remove it, then run `study site --maps`."


def map_problems(results: Results) -> Iterator[str]:
    """Yield what is wrong with `results/maps/`: not JSON, or made of another model or of other translations.

    Raises:
        InputError: the list of models cannot be read.
    """
    known = listed(results)
    for path in sorted((results.root / MAPS).glob("*")):
        try:
            tree = json.loads(path.read_bytes())
            model, hypotheses = tree["model_sha256"], tree["hypotheses_sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            yield f"{path}: expected attention maps in JSON, got something else. Remove it."
            continue
        if path.stem not in known or known[path.stem].sha256 != model:
            yield f"{path}: model_sha256: expected that of the published model, got another. {AGAIN}"
        elif hypotheses not in {score.hypotheses_sha256 for score in results.store.record(path.stem).scores}:
            yield f"{path}: hypotheses_sha256: expected that of the record, got another. {AGAIN}"
