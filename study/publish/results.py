"""Files of `results/`: published runs, and the manifest of every published sweep.

`runs/` has the records and translations of all runs, each once, by arm (see `study.store`).
`sweeps/<name>.json` says that a sweep is published, which runs it has, and what is missing of it.
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
from study.files import CHECKOUT
from study.records import Record, Section
from study.store import Store, read_section
from study.sweep.spec import Spec, load

AGAIN = "Remove the file and run `study reproduce`."
"""Remedy for a file that follows from the published records."""


class Partial(Section):
    """Missing runs of a sweep that was published in part."""

    reason: str = Field(description="Why it was published so.")
    missing: list[str] = Field(description="Identities of the declared runs without a record.")


class Code(Section):
    """One state of what decides numbers: config, corpora, the code from attention to pruning, scoring and the lock."""

    state: str = Field(description="8 hexadecimals of the hash of those files.")
    commits: list[str] = Field(description="Commits at which runs of this sweep were made and that have this state.")
    runs: int = Field(description="How many runs.")


class Manifest(Section):
    """Manifest of a published sweep."""

    schema_version: Literal[1] = Field(1, description="Version of this schema.")
    name: str = Field(description="Name of the sweep.")
    file: str = Field(description="Its file, from the top of the repository.")
    sweep_id: str = Field(description="Hash of what the file said when it was published, comments aside.")
    metric: str = Field(description="The score that decides, as split/metric.")
    partial: Partial | None = Field(None, description="null: every declared run is here, and none failed.")
    code: list[Code] = Field(description="States of the code that made the runs; one, unless it was changed between.")
    files: dict[str, str] = Field(
        description="SHA-256 of each record (its canonical text, which names its translations) and of each map."
    )

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
        """Folder of measured times and memory."""
        return self.root / "benchmarks"

    def manifest_path(self, name: str) -> Path:
        """Path of a sweep's manifest."""
        return self.root / "sweeps" / f"{name}.json"

    @cached_property
    def store(self) -> Store:
        """The published runs."""
        return Store(self.runs)

    @cached_property
    def records(self) -> dict[str, Record]:
        """Every published record by id.

        Raises:
            InputError: one cannot be read.
        """
        return {identity: self.store.record(identity) for identity in self.store.ids()}

    @cached_property
    def manifests(self) -> dict[str, Manifest]:
        """Every published sweep, by name.

        Raises:
            InputError: the folder is absent, or a file in it is no manifest.
        """
        if not self.root.is_dir():
            raise InputError(
                f"{self.root}: no such folder. Make it with `study publish SWEEP`, or name another with --results."
            )
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

    @cached_property
    def _specs(self) -> dict[str, Spec]:
        return {}

    def spec(self, manifest: Manifest) -> Spec:
        """Return the sweep file of a published sweep, read as it is today.

        Raises:
            InputError: it is absent, or no longer a sweep file.
        """
        if manifest.name not in self._specs:
            beside = self.root.resolve().parent / manifest.file
            self._specs[manifest.name] = load(beside if beside.is_file() else CHECKOUT / manifest.file)
        return self._specs[manifest.name]


def _read(path: Path) -> Manifest:
    manifest = read_section(Manifest, path, "Publish the sweep again.")
    if manifest.name != path.stem:
        raise InputError(
            f"{path}: name: expected {path.stem}, as the file is called, got {manifest.name}. Publish the sweep again."
        )
    return manifest
