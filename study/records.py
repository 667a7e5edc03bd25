"""Run record: one canonical JSON file per run. Reports read nothing else of a training.

Written once and atomically; read back validated. `config` is validated when written and plain data when read,
so that records outlive the fields of `Experiment`.

Versions of the schema: a record of an older version is migrated when it is read (`MIGRATIONS`). A record of a newer
version is read if its known fields are valid; fields that this program does not know are kept. In a record of this
version an unknown field is an error.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
)

from study import files
from study.config import plugins
from study.errors import InputError

SCHEMA_VERSION = 2
LARGEST = 2**26
"""Bytes of a record."""
CHECKPOINT, PARTS = "checkpoint.ckpt", "pruning.jsonl"
"""Files that a stopped training, or pruning, continues from; useless once there is a record."""

NUMBERS = re.compile(r"\[(?:\n +(?:-?\d[\d.e+-]*|null),?)+\n +\]")
"""A list of numbers and nulls in indented JSON. No string holds a line break there."""


Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, le=1e15)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$")]


def _in(unit: str) -> Any:
    """Return the unit of a field, for the JSON Schema."""
    return {"unit": unit}


class Section(BaseModel):
    """Immutable, unknown keys refused, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _with_unknown_fields(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Fields of a newer version are written again as they were read."""
        known: dict[str, Any] = dump(self)
        return known | (self.model_extra or {})


class DataFacts(Section):
    """Data of the run: SHA-256 of every file (or generated split) and of the subword model."""

    name: str = Field(description="Corpus or probe.")
    version: Count = Field(
        json_schema_extra=_in("1"), description="Version of its generator, or of how its files are read."
    )
    source: str = Field(description="Language of the source.")
    target: str = Field(description="Language of the target.")
    files: dict[str, str] = Field(description="SHA-256 by file, or by split for a generated corpus.")
    subwords: str | None = Field(description="SHA-256 of the subword model; null with words.")


class ModelFacts(Section):
    """Sizes of the model. FLOPs: forward, teacher-forced, at the corpus's mean lengths, per target token."""

    parameters: Count = Field(
        json_schema_extra=_in("numbers"), description="Trained numbers, shared ones counted once."
    )
    parameters_attention: Count = Field(json_schema_extra=_in("numbers"), description="Those of the attention sites.")
    flops_per_token: Count | None = Field(
        json_schema_extra=_in("floating-point operations per target token"),
        description="Operations per target token; null: not measured.",
    )


class Resources(Section):
    """Resources of the run. Times differ between runs; nothing else here is compared."""

    train_seconds: Amount = Field(
        json_schema_extra=_in("s"), description="Seconds in training steps, validation left out."
    )
    wall_seconds: Amount = Field(
        json_schema_extra=_in("s"), description="Seconds of all calls together, without work that an interruption lost."
    )
    tokens_per_second: Amount = Field(
        json_schema_extra=_in("target tokens per s"), description="Target tokens per second of train_seconds."
    )
    decode_sentences_per_second: Amount | None = Field(
        json_schema_extra=_in("sentences per s"), description="Sentences per second of beam search at test."
    )
    peak_memory_bytes: Count = Field(
        json_schema_extra=_in("bytes"), description="Bytes: on a GPU what was allocated, else the largest resident set."
    )


class Selection(Section):
    """Choice of the tested step, on validation only."""

    rule: Name = Field(description="The field training.select.")
    step: Count = Field(json_schema_extra=_in("updates"), description="The step whose weights were tested.")
    value: float | None = Field(
        json_schema_extra=_in("of what the rule compared"), description="What the rule compared, at that step."
    )


class Score(Section):
    """One number on one split. `subset` names a part of it (`length 4-7`); `hypotheses` is a file beside the record."""

    split: Name = Field(description="Split of the corpus; valid is validation.")
    metric: Name = Field(description="Which score; see the list of scores.")
    value: float | None = Field(
        json_schema_extra=_in("of the metric"),
        description="The score; null where the model cannot read a pair of the split.",
    )
    n: Count = Field(
        json_schema_extra=_in("sentences, tokens or minimal pairs"),
        description="Sentences, or tokens (perplexity) or minimal pairs (contrast).",
    )
    subset: str | None = Field(
        None, description="A part of the split, by words of the source, or of the model, by heads; null: the whole."
    )
    signature: str | None = Field(None, description="How it was computed, scorer and version included.")
    hypotheses: str | None = Field(None, description="The file of translations that was scored; null: none was.")
    hypotheses_sha256: str | None = Field(None, description="SHA-256 of that file.")


class Call(Section):
    """One call of the program that made a part of a run, where several calls made it and differ."""

    from_step: Count = Field(
        json_schema_extra=_in("updates"),
        description="Step, or part of a pruning, that it continued from; 0: it began the run.",
    )
    git_commit: str | None = Field(description="Commit of the code.")
    git_dirty: bool | None = Field(description="Whether the code differed from it.")
    device: str = Field(description="Name of the GPU, else of the processor.")
    device_count: Count = Field(json_schema_extra=_in("devices"), description="How many of them.")
    threads: Count | None = Field(
        json_schema_extra=_in("threads"), description="CPU threads of torch, of each process."
    )


class Provenance(Section):
    """Origin of the numbers, without user, path or host. `calls` has what differs between the calls of one run."""

    git_commit: str | None = Field(description="Commit of the code; null outside a checkout.")
    git_dirty: bool | None = Field(description="Whether study/, sweeps/ or requirements.lock differed, in any call.")
    python: str = Field(description="Version of Python.")
    packages: dict[str, str] = Field(description="Versions of the packages that decide numbers.")
    device: str = Field(description="Name of the GPU, else of the processor.")
    device_count: Count = Field(json_schema_extra=_in("devices"), description="How many of them one run used.")
    precision: Name = Field(description="The field training.precision.")
    deterministic: bool = Field(description="Whether the same run gives the same bits here (one CPU thread).")
    started_utc: Time = Field(description="When the run started, UTC.")
    threads: Count | None = Field(
        None,
        json_schema_extra=_in("threads"),
        description="CPU threads of torch, of each process; older records lack it.",
    )
    calls: list[Call] = Field([], description="Calls that made the run, if they differ; else left out.")

    def of_calls(self, name: str) -> list[Any]:
        """Return the values that a field has in the calls of the run, each once, in their order."""
        made: Sequence[Section] = self.calls or [self]
        return list(dict.fromkeys(getattr(call, name) for call in made))

    @model_serializer(mode="wrap")
    def _with_unknown_fields(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what an older record lacks, so that writing it again changes nothing."""
        known: dict[str, Any] = dump(self)
        tree = known | (self.model_extra or {})
        return {name: value for name, value in tree.items() if name not in ("threads", "calls") or value}


class Wandb(Section):
    """Informational only."""

    id: str = Field(description="W&B's name of the run.")
    url: str | None = Field(description="Its address; null for a run that was offline.")


class Record(Section):
    """One run, whole."""

    schema_version: int = Field(SCHEMA_VERSION, ge=SCHEMA_VERSION, description="Version of this schema.")
    protocol: int = Field(description="Raised when a fix moves numbers; part of the identity.")
    id: str = Field(description="Corpus, family, score of cross-attention, 8 hexadecimals of config_hash, seed.")
    status: Literal["finished", "diverged", "failed"] = Field(
        description="diverged (the loss became infinite or no number) is a result; failed is none."
    )
    error: str | None = Field(None, description="Why it diverged or failed.")
    config: dict[str, Any] = Field(description="The resolved experiment; `study train --help` describes its fields.")
    config_hash: str = Field(description="SHA-256 of the fields that decide numbers, without the seed.")
    seed: int = Field(description="Seed of initial values, data order and dropout.")
    data: DataFacts | None = Field(None, description="What was read.")
    model: ModelFacts | None = Field(None, description="Sizes of the model.")
    resources: Resources | None = Field(None, description="What the run took.")
    selection: Selection | None = Field(None, description="Which step was tested, and why.")
    scores: list[Score] = Field([], description="Every score of every split.")
    diagnostics: dict[str, Any] = Field(
        {},
        description="Site, then layer, then head: what attention did at the last validation, on a fixed batch. "
        "`pruning`: the order of a pruning's heads, by site, layer and head, and which were removed.",
    )
    history: list[dict[str, Any]] = Field([], description="One point a validation: step, losses, rate, diagnostics.")
    per_sentence: dict[str, str] = Field(
        {},
        description="SHA-256 by file with one number a sentence: `test.nll.txt`, NLL in nats; empty: none was written.",
    )
    provenance: Provenance | None = Field(None, description="Where the numbers come from.")
    wandb: Wandb | None = Field(None, description="The W&B run, for information only.")

    @field_validator("diagnostics")
    @classmethod
    def _check_diagnostics(cls, found: dict[str, Any]) -> dict[str, Any]:
        if wrong := [name for name, value in found.items() if not isinstance(value, dict | list)]:
            raise ValueError(f"{wrong[0]}: expected an object or a list, got {found[wrong[0]]!r:.80}")
        return found

    def score(self, split: str, metric: str, subset: str | None = None) -> float | None:
        """Return the value of one score, or None where the run has none."""
        for score in self.scores:
            if (score.split, score.metric, score.subset) == (split, metric, subset):
                return score.value
        return None


def dumps(record: Record) -> str:
    """Return the canonical text of a record, floats rounded to 6 significant digits (see `rounded`)."""
    return canonical(rounded(record.model_dump(mode="json")))


def canonical(tree: Any) -> str:
    """Canonical JSON: sorted keys, indent 1, UTF-8, final newline; a list of numbers stands on one line."""
    text = json.dumps(tree, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return NUMBERS.sub(lambda match: re.sub(r"\n +", " ", match[0]).replace("[ ", "[").replace(" ]", "]"), text) + "\n"


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a record; `unit` is the unit of a number."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Record.model_json_schema()


def rounded(tree: Any) -> Any:
    """Every float rounded to 6 significant digits outside `config`, so that CPUs agree; NaN and ∞ become None."""
    if isinstance(tree, float):
        return float(f"{tree:.6g}") if math.isfinite(tree) else None
    if isinstance(tree, dict):
        return {key: value if key == "config" else rounded(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [rounded(item) for item in tree]
    return tree


def read(path: Path) -> Record:
    """Return a record from its file. Copies of a user's own mechanisms beside it become known.

    Raises:
        InputError: the file is absent, no JSON, or no record (see `parse`).
    """
    return parse(read_json(path), str(path))


def read_text(path: Path) -> str:
    """Return the text of a file of records.

    Raises:
        InputError: the file is absent, or no text.
    """
    plugins.learn(path.parent)
    try:
        return files.read(path, LARGEST).decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such record. `study sweep FILE --status` lists the finished runs.") from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else " ".join(str(problem).split())[:100]
        raise InputError(
            f"{path}: expected a JSON record, got something else ({reason}). Restore it, or remove it to run again."
        ) from None


def read_json(path: Path) -> Any:
    """Return the plain data of a file of records.

    Raises:
        InputError: the file is absent, or no JSON.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        reason = " ".join(str(problem).split())[:100]
        raise InputError(
            f"{path}: expected a JSON record, got something else ({reason}). Restore it, or remove it to run again."
        ) from None


def parse(tree: Any, where: str) -> Record:
    """Return a record from plain data.

    Args:
        tree: the data.
        where: the place of the data, for messages.

    Raises:
        InputError: it has no known schema version, breaks the schema, or names a file of code.
    """
    version = tree.get("schema_version") if isinstance(tree, dict) else None
    if type(version) is not int or version < 1:  # true is 1, to Python
        raise InputError(
            f"{where}: schema_version: expected 1 to {SCHEMA_VERSION} or a later version, got {version!r}. "
            "Restore the record, or use the program that wrote it."
        )
    for older in range(version, SCHEMA_VERSION):
        tree = MIGRATIONS[older](tree) | {"schema_version": older + 1}
    try:
        record = Record.model_validate(tree, extra="allow" if version > SCHEMA_VERSION else None)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        cause = "The record was changed by hand, or another program wrote it: restore it."
        if version > SCHEMA_VERSION:
            cause = (
                f"The record has schema_version {version}, and this program reads {SCHEMA_VERSION}: use a newer one."
            )
        raise InputError(f"{where}: {field}: {first['msg']}. {cause}") from None
    plugins.check_resolved(record.config, where)
    return record


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: lambda tree: tree | {"per_sentence": {}}}
"""Older version ↦ a function from the plain data of that version to that of the next one.

Version 2 adds `per_sentence`: a run of version 1 wrote no such files.
"""


def state(folder: Path) -> Literal["missing", "started", "finished", "diverged", "failed"]:
    """Return the state of one run on disk: `started` is a folder without a record (running, or interrupted).

    Raises:
        InputError: there is a record that cannot be read, or no folder but a file.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        if not os.path.lexists(folder):
            return "missing"
        names = None
    except NotADirectoryError:
        names = None
    except OSError as problem:
        raise InputError(f"{folder}: cannot be read ({problem.strerror}). Check the name and your rights.") from None
    if names is None:
        raise InputError(f"{folder}: expected a folder, got a file. Remove it, or name another folder with --runs.")
    if "record.json" in names:
        return read(folder / "record.json").status
    return "started" if names else "missing"
