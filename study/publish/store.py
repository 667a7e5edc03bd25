"""What is published, and where: the files of `results/`, and the one that says that a sweep is published.

`runs/<id>.json` is a record, byte for byte as the run wrote it. Beside it, for each split, are the translations
(`<id>.<split>.hyp.txt`) and what BLEU and exact match need of each of them (`<id>.<split>.bleu.tsv`, see `rescoring`),
and one attention map to look at (`<id>.attention.json`).
`sweeps/<name>.json` says that a sweep is published, and what is missing of it.
`benchmarks/cost.json` has measured times.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field

from study.errors import InputError
from study.records import Record, Section
from study.store import read_section
from study.sweep.spec import Spec, load

ROOT = Path(__file__).parents[2]
HYPOTHESES, STATISTICS, ATTENTION = ".hyp.txt", ".bleu.tsv", ".attention.json"


class Partial(Section):
    """What is missing of a sweep that was published with holes."""

    reason: str = Field(description="Why it was published so.")
    missing: list[str] = Field(description="Identities of the declared runs without a record.")


class Code(Section):
    """One state of what decides numbers: config, corpora, the code from attention to pruning, scoring and the lock."""

    state: str = Field(description="8 hexadecimals of the hash of those files.")
    commits: list[str] = Field(description="Commits at which runs of this sweep were made and that have this state.")
    runs: int = Field(description="How many runs.")


class Manifest(Section):
    """That a sweep is published."""

    schema_version: Literal[1] = Field(1, description="Version of this schema.")
    name: str = Field(description="Name of the sweep.")
    file: str = Field(description="Its file, from the top of the repository.")
    sweep_id: str = Field(description="Hash of what the file said when it was published, comments aside.")
    metric: str = Field(description="The score that decides, as split/metric.")
    partial: Partial | None = Field(None, description="null: every declared run is here, and none failed.")
    code: list[Code] = Field(description="States of the code that made the runs; one, unless it was changed between.")
    files: dict[str, str] = Field(description="SHA-256 of each record, which names its translations, and of each map.")

    def dumps(self) -> str:
        """Canonical JSON, as records have it."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Results:
    """A folder of published results."""

    root: Path

    @property
    def runs(self) -> Path:
        """The records and their files."""
        return self.root / "runs"

    @property
    def benchmarks(self) -> Path:
        """What was measured of time and memory."""
        return self.root / "benchmarks"

    def manifest_path(self, name: str) -> Path:
        """Where it stands that a sweep is published."""
        return self.root / "sweeps" / f"{name}.json"

    @property
    def records(self) -> list[Path]:
        """Every published record, by name."""
        return sorted(path for path in self.runs.glob("[!.]*.json") if not path.name.endswith(ATTENTION))

    def record_path(self, identity: str) -> Path:
        """Where a published record is."""
        return self.runs / f"{identity}.json"

    def digests(self, identity: str, record: Path) -> dict[str, str]:
        """SHA-256 of a run's record and, if there is one, its attention map, by their published names.

        Numbers that no translation gives (NLL, diagnostics, learning curves) have no other guard.

        Args:
            identity: the run.
            record: its record, working or published.
        """
        target = self.record_path(identity)
        maps = [beside(path, ATTENTION[1:]) for path in (record, target)]
        found = [(target.name, record), *((maps[-1].name, path) for path in maps[::-1] if path.is_file())]
        return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found}

    @cached_property
    def manifests(self) -> dict[str, Manifest]:
        """Every published sweep, by name.

        Raises:
            InputError: the folder is absent, or a file in it is no manifest.
        """
        if not self.root.is_dir():
            raise InputError(f"{self.root}: no such folder; `study publish SWEEP` makes it, --results says where it is")
        found = [_read(path) for path in sorted((self.root / "sweeps").glob("[!.]*.json"))]
        return {manifest.name: manifest for manifest in found}

    @property
    def root_hash(self) -> str:
        """SHA-256 of one line for each manifest, by name: its SHA-256, two blanks, its file name.

        `cd results/sweeps && LC_ALL=C sha256sum *.json | sha256sum` prints the same.
        """
        paths = sorted((self.root / "sweeps").glob("[!.]*.json"))
        lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def printed_hashes(self) -> dict[Path, str]:
        """The root hash as the paper's data and the README beside the folder print it; those that do, by path."""
        readme, data = self.root.resolve().parent / "README.md", self.root / "tables" / "study.json"
        patterns = {readme: r"<!-- root -->\s+.*?`([^`]*)`", data: r'"root_hash": "([^"]*)"'}
        texts = {path: path.read_text(encoding="utf-8") for path in patterns if path.is_file()}
        return {path: found[1] for path, text in texts.items() if (found := re.search(patterns[path], text))}

    def spec(self, manifest: Manifest) -> Spec:
        """The sweep file of a published sweep, read as it is today.

        Raises:
            InputError: it is absent, or no longer a sweep file.
        """
        if manifest.name not in self._specs:
            beside = self.root.resolve().parent / manifest.file
            self._specs[manifest.name] = load(beside if beside.is_file() else ROOT / manifest.file)
        return self._specs[manifest.name]

    @cached_property
    def _specs(self) -> dict[str, Spec]:
        return {}


def _read(path: Path) -> Manifest:
    manifest = read_section(Manifest, path, "publish the sweep again")
    if manifest.name != path.stem:
        raise InputError(f"{path}: name: {manifest.name}, and the file is named {path.stem}; publish the sweep again")
    return manifest


def runs_of(folder: Path) -> Path:
    """The folder of the records: that of a results folder, else the folder itself."""
    return folder / "runs" if is_results(folder) else folder


def is_results(folder: Path) -> bool:
    """Whether this is a folder of published results, and not one of runs."""
    return (folder / "sweeps").is_dir() and (folder / "runs").is_dir()


def beside(path: Path, name: str) -> Path:
    """A file of a run (`test.hyp.txt`), given the path of its record, working or published."""
    return path.with_name(name) if path.name == "record.json" else path.with_name(f"{path.stem}.{name}")


def statistics_name(hypotheses: str) -> str:
    """`test.hyp.txt` ↦ `test.bleu.tsv`."""
    return hypotheses.removesuffix(HYPOTHESES) + STATISTICS


def hypothesis_files(record: Record) -> dict[str, list[int]]:
    """Name of each file of translations that the record names ↦ the places of its scores in `scores`."""
    files: dict[str, list[int]] = {}
    for place, score in enumerate(record.scores):
        if score.hypotheses is not None:
            files.setdefault(score.hypotheses, []).append(place)
    return files
