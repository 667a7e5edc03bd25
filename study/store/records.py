"""Run record: one canonical JSON file per run. Reports read nothing else of a training.

Written once and atomically; read back validated. `config` is validated when written and plain data when read,
so that records outlive the fields of `Experiment`.

Versions of the schema: version 2 adds `per_sentence`, so a record of version 1 is read as it is. A record of a newer
version, and an unknown field, are refused.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from study import files
from study.config import plugins
from study.config.overrides import flat
from study.errors import InputError
from study.schema import Count, Identifier, Section
from study.scores.score import RecordedScore

SCHEMA_VERSION = 2
LARGEST = 2**26
"""Bytes of a record."""
CHECKPOINT = "checkpoint.ckpt"
"""File that a stopped training continues from; useless once there is a record."""
STOPPED = "stopped"
"""File of a run that W&B has stopped: it is continued if a user asks for it, and not by the sweep that it is of."""

DONE = ("finished", "diverged", "unreadable")
"""States of a run that is not made again. An unreadable record may be one that somebody can restore."""

NUMBERS = re.compile(r"\[(?:\n +(?:-?\d[\d.e+-]*|null),?)+\n +\]")
"""A list of numbers and nulls in indented JSON. No string holds a line break there."""

Amount = Annotated[float, Field(ge=0, le=1e15)]
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$")]


class DataFacts(Section):
    """Data of a run.

    Attributes:
        name: corpus or probe.
        version: of its generator, or of how its files are read.
        source: language of the source.
        target: language of the target.
        files: SHA-256 by file, or by split for a generated corpus.
        subwords: SHA-256 of the subword model; None with words.
    """

    name: str
    version: Count
    source: str
    target: str
    files: dict[str, str]
    subwords: str | None


class ModelFacts(Section):
    """Sizes of the model.

    Attributes:
        parameters: trained numbers, shared ones counted once.
        parameters_attention: those of the attention sites.
        flops_per_token: floating-point operations per target token: forward, teacher-forced, at the corpus's mean
            lengths. None: not measured.
    """

    parameters: Count
    parameters_attention: Count
    flops_per_token: Count | None


class Resources(Section):
    """Resources of a run. Times differ between runs; nothing else here is compared.

    Attributes:
        train_seconds: in training steps, validation left out.
        wall_seconds: of all calls together, without work that an interruption lost.
        tokens_per_second: target tokens per second of train_seconds.
        decode_sentences_per_second: of beam search at test.
        peak_memory_bytes: on a GPU what was allocated, else the largest resident set.
    """

    train_seconds: Amount
    wall_seconds: Amount
    tokens_per_second: Amount
    decode_sentences_per_second: Amount | None
    peak_memory_bytes: Count


class Selection(Section):
    """Choice of the tested step, on validation only.

    Attributes:
        rule: the field training.select.
        step: the update whose weights were tested.
        value: what the rule compared, at that step.
    """

    rule: Identifier
    step: Count
    value: float | None


class Call(Section):
    """One call of the program that made a part of a run, where several calls made it and differ.

    Attributes:
        from_step: the update, or part of a pruning, that it continued from; 0: it began the run.
        git_commit: commit of the code.
        git_dirty: whether the code differed from it.
        device: name of the GPU, else of the processor.
        device_count: how many of them.
        threads: CPU threads of torch, of each process.
    """

    from_step: Count
    git_commit: str | None
    git_dirty: bool | None
    device: str
    device_count: Count
    threads: Count | None


class Provenance(Section):
    """Origin of the numbers, without user, path or host.

    Attributes:
        git_commit: commit of the code; None outside a checkout.
        git_dirty: whether study/, sweeps/ or requirements.lock differed, in any call.
        python: its version.
        packages: versions of the packages that decide numbers.
        device: name of the GPU, else of the processor.
        device_count: how many of them one run used.
        precision: the field training.precision.
        deterministic: whether the same run gives the same bits here (one CPU thread).
        started_utc: when the run started.
        threads: CPU threads of torch, of each process; older records lack it.
        instructions: vector instructions of the CPU that torch used, such as AVX2: runs made with others may differ in
            the last bits. None on a GPU; older records lack it.
        calls: calls that made the run, if they differ; else left out.
    """

    git_commit: str | None
    git_dirty: bool | None
    python: str
    packages: dict[str, str]
    device: str
    device_count: Count
    precision: Identifier
    deterministic: bool
    started_utc: Time
    threads: Count | None = Field(None, exclude_if=lambda threads: not threads)
    instructions: str | None = Field(None, exclude_if=lambda instructions: not instructions)
    calls: list[Call] = Field([], exclude_if=lambda calls: not calls)

    def of_calls(self, name: str) -> list[Any]:
        """Return the values that a field has in the calls of the run, each once, in their order."""
        calls: Sequence[Section] = self.calls or [self]
        return list(dict.fromkeys(getattr(call, name) for call in calls))


class Wandb(Section):
    """The W&B run, for information only.

    Attributes:
        id: W&B's name of the run.
        url: its address; None for a run that was offline.
    """

    id: str
    url: str | None


class Record(Section):
    """One run, whole.

    Attributes:
        schema_version: version of this schema.
        protocol: raised when a fix moves numbers; part of the identity.
        id: corpus, family, score of cross-attention, 8 hexadecimals of config_hash, seed.
        status: diverged (the loss became infinite or no number) is a result; failed is none.
        error: why it diverged or failed.
        config: the resolved experiment; `study train --help` describes its fields.
        config_hash: SHA-256 of the fields that decide numbers, without the seed.
        seed: of initial values, data order and dropout.
        data: what was read.
        model: sizes of the model.
        resources: what the run took.
        selection: which step was tested, and why.
        scores: every score of every split.
        diagnostics: site, then layer, then head: what attention did at the last validation, on a fixed batch.
            `pruning`: the order of a pruning's heads, by site, layer and head, and which were removed.
        history: one point a validation: step, losses, rate, diagnostics.
        per_sentence: SHA-256 by file with one number a sentence: `test.nll.txt`, NLL in nats.
        provenance: where the numbers come from.
        wandb: the W&B run.
    """

    schema_version: int = SCHEMA_VERSION
    protocol: int
    id: str
    status: Literal["finished", "diverged", "failed"]
    error: str | None = None
    config: dict[str, Any]
    config_hash: str
    seed: int
    data: DataFacts | None = None
    model: ModelFacts | None = None
    resources: Resources | None = None
    selection: Selection | None = None
    scores: list[RecordedScore] = []
    diagnostics: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    per_sentence: dict[str, str] = {}
    provenance: Provenance | None = None
    wandb: Wandb | None = None

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


def incomplete(record: Record, splits: Iterable[str]) -> str | None:
    """Return the first thing that a finished run lacks: a validation, its last step or a split; None if it is whole.

    Args:
        record: the run.
        splits: those that its corpus scores.
    """
    if record.status != "finished":
        return None
    fields, steps = dict(flat(record.config)), [point.get("step") for point in record.history]
    total, every = fields["training.steps"], fields["training.validate_every"]
    due = [*range(every, total, every), total]
    if steps != due:
        missing = sorted({*due} - {*steps})
        scores = f"none at {missing[0]}" if missing else "others"
        return f"history: expected {len(due)} validations up to step {total}, got {scores}"
    lost = [split for split in splits if split not in {score.split for score in record.scores}]
    return f"scores: expected the split {lost[0]}, got none" if lost else None


def dumps(record: Record) -> str:
    """Return the canonical text of a record, floats rounded to 6 significant digits (see `rounded`)."""
    return canonical(rounded(record.model_dump(mode="json")))


def canonical(tree: Any) -> str:
    """Canonical JSON: sorted keys, indent 1, UTF-8, final newline; a list of numbers stands on one line."""
    text = json.dumps(tree, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return NUMBERS.sub(lambda match: re.sub(r"\n +", " ", match[0]).replace("[ ", "[").replace(" ]", "]"), text) + "\n"


def rounded(tree: Any, digits: int = 6) -> Any:
    """Every float rounded to significant digits outside `config`, so that CPUs agree; NaN and ∞ become None."""
    if isinstance(tree, float):
        return float(f"{tree:.{digits}g}") if math.isfinite(tree) else None
    if isinstance(tree, dict):
        return {key: value if key == "config" else rounded(value, digits) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [rounded(item, digits) for item in tree]
    return tree


def read(path: Path) -> Record:
    """Return a record from its file. Copies of a user's own mechanisms beside it become known.

    Raises:
        InputError: the file is absent, no JSON, or no record (see `parse`).
    """
    plugins.learn(path.parent)
    try:
        return parse(files.read_json(path, LARGEST), str(path))
    except InputError as problem:
        raise InputError(f"{problem} Or remove its folder, and the run can be made again.") from None


def parse(tree: Any, where: str) -> Record:
    """Return a record from plain data.

    Args:
        tree: the data.
        where: the place of the data, for messages.

    Raises:
        InputError: it has no known schema version, breaks the schema, or names a file of code.
    """
    version = tree.get("schema_version") if isinstance(tree, dict) else None
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:  # true is 1, to Python
        remedy = "Restore the record, or use the program that wrote it."
        raise InputError(f"{where}: schema_version: expected 1 to {SCHEMA_VERSION}, got {version!r}. {remedy}")
    try:
        record = Record.model_validate(tree | {"schema_version": SCHEMA_VERSION})
    except ValidationError as error:
        remedy = "The record was changed by hand, or another program wrote it: restore it."
        raise InputError(f"{where}: {first_error(error)}. {remedy}") from None
    for name, value in flat(record.config):
        if isinstance(value, str) and plugins.FILE.fullmatch(value):  # only a user names files of code
            raise InputError(
                f"{where}: config.{name}: expected a mechanism and its SHA-256, got {value!r}. Restore it."
            )
    return record


def first_error(error: ValidationError) -> str:
    """Return the field and the message of the first error."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'top level'}: {first['msg']}"


def state(folder: Path) -> Literal["missing", "started", "finished", "diverged", "failed", "unreadable"]:
    """Return the state of one run on disk: `started` is a folder without a record (running, or interrupted).

    `unreadable` is a record that cannot be read; `read` says why.

    Raises:
        InputError: there is no folder but a file.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return "missing"
    except OSError as problem:
        raise InputError(f"{folder}: cannot be read ({problem.strerror}). Check the name and your rights.") from None
    if "record.json" in names:
        with suppress(InputError):
            return read(folder / "record.json").status
        return "unreadable"
    return "started" if names else "missing"
