"""The run record: one canonical JSON file a run, the only thing that passes from training to reports.

Written once and atomically; read back validated. `config` is validated when written and plain data when read,
so that records outlive the fields of `Experiment`.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from study.errors import InputError

SCHEMA_VERSION: Literal[1] = 1


class Section(BaseModel):
    """Immutable, unknown keys refused, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataFacts(Section):
    """What was read: SHA-256 of every file (or generated split) and of the subword model."""

    name: str
    version: int
    source: str
    target: str
    files: dict[str, str]
    subwords: str | None


class ModelFacts(Section):
    """Sizes of the model."""

    parameters: int
    parameters_attention: int
    flops_per_token: int | None


class Resources(Section):
    """What the run took. Times differ between runs; nothing else here is compared."""

    train_seconds: float
    wall_seconds: float
    tokens_per_second: float
    decode_sentences_per_second: float | None
    peak_memory_bytes: int


class Selection(Section):
    """Which step was tested, by which rule, on validation only."""

    rule: str
    step: int
    value: float | None


class Score(Section):
    """One number on one split. `subset` names a part of it (`length 4-7`); `hypotheses` is a file beside the record."""

    split: str
    metric: str
    value: float | None
    n: int
    subset: str | None = None
    signature: str | None = None
    hypotheses: str | None = None
    hypotheses_sha256: str | None = None


class Provenance(Section):
    """Where the numbers come from: no user, path or host."""

    git_commit: str | None
    git_dirty: bool | None
    python: str
    packages: dict[str, str]
    device: str
    device_count: int
    precision: str
    deterministic: bool
    started_utc: str


class Wandb(Section):
    """Informational only."""

    id: str
    url: str | None


class Record(Section):
    """One run, whole."""

    schema_version: Literal[1] = SCHEMA_VERSION
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
    scores: list[Score] = []
    diagnostics: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    provenance: Provenance | None = None
    wandb: Wandb | None = None

    def score(self, split: str, metric: str, subset: str | None = None) -> float | None:
        """The value of one score, or None where the run has none."""
        for score in self.scores:
            if (score.split, score.metric, score.subset) == (split, metric, subset):
                return score.value
        return None


def dumps(record: Record) -> str:
    """Canonical JSON: sorted keys, indent 1, UTF-8, final newline, numbers rounded to 6 significant digits."""
    tree = rounded(record.model_dump(mode="json"))
    return json.dumps(tree, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def rounded(tree: Any) -> Any:
    """Every float rounded to 6 significant digits outside `config`, so that CPUs agree; NaN and ∞ become None."""
    if isinstance(tree, float):
        return float(f"{tree:.6g}") if math.isfinite(tree) else None
    if isinstance(tree, dict):
        return {key: value if key == "config" else rounded(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [rounded(item) for item in tree]
    return tree


def write(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read(path: Path) -> Record:
    """A record from its file.

    Raises:
        InputError: the file is absent, no JSON, of an unknown schema version, or breaks the schema.
    """
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such record; `study sweep FILE --status` lists what has run") from None
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(
            f"{path}: not a readable JSON record ({problem}); restore it, or remove it to run again"
        ) from None
    version = tree.get("schema_version") if isinstance(tree, dict) else None
    if type(version) is not int or version != SCHEMA_VERSION:  # true is 1, to Python
        raise InputError(
            f"{path}: schema_version is {version!r}, and this program reads {SCHEMA_VERSION}; "
            "use the program that wrote it, or another folder"
        )
    try:
        return Record.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{path}: {where}: {first['msg']}; the record was changed by hand or is of another program"
        ) from None


def state(folder: Path) -> Literal["missing", "started", "finished", "diverged", "failed"]:
    """What is on disk for one run: `started` is a folder without a record (running, or interrupted).

    Raises:
        InputError: there is a record that cannot be read, or no folder but a file.
    """
    there = os.path.isdir(folder)
    if os.path.lexists(folder) and not there:
        raise InputError(f"{folder}: a file stands where the folder of a run belongs; remove it, or use another --out")
    if os.path.exists(folder / "record.json"):
        return read(folder / "record.json").status
    return "started" if there and any(folder.iterdir()) else "missing"
