"""Files of `results/`: tables of runs, what follows from them, and a manifest of all.

`manifest.json` says which sweeps are published, what is missing of each, and the SHA-256 of every other file. Its own
SHA-256 is the root hash, which stands for everything that is published.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from study import files
from study.errors import InputError
from study.files import CHECKOUT
from study.records import Record, Section
from study.store import MANIFEST, Store, read_section
from study.sweep.spec import Spec, load

PAGES = ("docs/verdicts.md",)
"""Pages that state numbers of the folder, from the folder above it."""


class Partial(Section):
    """Missing runs of a sweep that was published in part."""

    reason: str = Field(description="Why it was published so.")
    missing: list[str] = Field(description="Identities of the declared runs without a record.")


class Code(Section):
    """One state of what decides numbers: config, corpora, the code from attention to pruning, scoring and the lock."""

    state: str = Field(description="8 hexadecimals of the hash of those files.")
    commits: list[str] = Field(description="Commits at which runs of this sweep were made and that have this state.")
    runs: int = Field(description="How many runs.")


class PublishedSweep(Section):
    """A published sweep."""

    name: str = Field(description="Name of the sweep.", exclude=True)
    file: str = Field(description="Its file, from the top of the repository.")
    sweep_id: str = Field(description="Hash of what the file said when it was published, comments aside.")
    metric: str = Field(description="The score that decides, as split/metric.")
    partial: Partial | None = Field(None, description="null: every declared run is here, and none failed.")
    code: list[Code] = Field(description="States of the code that made the runs; one, unless it was changed between.")


class Manifest(Section):
    """Manifest of a folder of results."""

    schema_version: Literal[2] = Field(2, description="Version of this schema.")
    sweeps: dict[str, PublishedSweep] = Field(description="The published sweeps by name.")
    files: dict[str, str] = Field(description="SHA-256 of every other file of the folder, by its path from there.")

    @model_validator(mode="before")
    @classmethod
    def _name_sweeps(cls, tree: Any) -> Any:
        sweeps = tree.get("sweeps") if isinstance(tree, dict) else None
        if isinstance(sweeps, dict) and all(isinstance(sweep, dict) for sweep in sweeps.values()):
            return tree | {"sweeps": {name: {**sweep, "name": name} for name, sweep in sweeps.items()}}
        return tree

    def dumps(self) -> str:
        """Canonical JSON, as records have it."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Results:
    """A folder of published results."""

    root: Path

    @property
    def benchmarks(self) -> Path:
        """Folder of measured times and memory."""
        return self.root / "benchmarks"

    @cached_property
    def store(self) -> Store:
        """The published runs."""
        return Store(self.root)

    @cached_property
    def records(self) -> dict[str, Record]:
        """Every published record by id.

        Raises:
            InputError: one cannot be read.
        """
        return {identity: self.store.record(identity) for identity in self.store.ids()}

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest; an empty one where nothing is published.

        Raises:
            InputError: the folder is absent, or the file is no manifest.
        """
        if not self.root.is_dir():
            raise InputError(
                f"{self.root}: no such folder. Make it with `study publish SWEEP`, or name another with --results."
            )
        path = self.root / MANIFEST
        if not path.is_file():
            return Manifest(sweeps={}, files={})
        return read_section(Manifest, path, "Restore the file, or publish the sweeps again.")

    @property
    def manifests(self) -> dict[str, PublishedSweep]:
        """Every published sweep, by name.

        Raises:
            InputError: see `manifest`.
        """
        return dict(sorted(self.manifest.sweeps.items()))

    @property
    def root_hash(self) -> str:
        """SHA-256 of the manifest: `sha256sum results/manifest.json` prints the same. Empty where there is none."""
        path = self.root / MANIFEST
        return hashlib.sha256(files.read(path, below=self.root)).hexdigest() if path.is_file() else ""

    @property
    def printed_hash(self) -> str | None:
        """The root hash as the README beside the folder prints it; None where it does not."""
        readme = self.root.resolve().parent / "README.md"
        text = files.read_text(readme) if readme.is_file() else ""
        found = re.search(r"<!-- root -->\s+.*?`([^`]*)`", text)
        return found[1] if found else None

    @cached_property
    def _specs(self) -> dict[str, Spec]:
        return {}

    def spec(self, sweep: PublishedSweep) -> Spec:
        """Return the sweep file of a published sweep, read as it is today.

        Raises:
            InputError: it is absent, or no longer a sweep file.
        """
        if sweep.name not in self._specs:
            beside = self.root.resolve().parent / sweep.file
            self._specs[sweep.name] = load(beside if beside.is_file() else CHECKOUT / sweep.file)
        return self._specs[sweep.name]

    def changed(self) -> Iterator[tuple[str, str]]:
        """Yield each file that is not as the manifest says, and `missing`, `changed` or `stray`."""
        known, there = self.manifest.files, hashes(self.root)
        for name in sorted(known.keys() | there.keys()):
            if known.get(name) != there.get(name):
                yield name, "missing" if name not in there else "stray" if name not in known else "changed"


def write_manifest(root: Path, sweeps: Mapping[str, Any] | None = None) -> Manifest:
    """Write the manifest of a folder for the files that are there.

    Args:
        root: the folder.
        sweeps: published sweeps by name, to be added or replaced.

    Raises:
        OSError: it cannot be written.
        InputError: the one that is there cannot be read.
    """
    known = {name: sweep.model_dump(mode="json") for name, sweep in Results(root).manifest.sweeps.items()}
    made = {
        name: one.model_dump(mode="json") if isinstance(one, Section) else one for name, one in (sweeps or {}).items()
    }
    manifest = Manifest.model_validate({"sweeps": known | made, "files": hashes(root)})
    path, text = root / MANIFEST, manifest.dumps()
    if not path.is_file() or path.read_bytes() != text.encode():
        files.write(path, text)
    return manifest


def hashes(root: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder but its manifest and hidden files, by its path from there.

    Links are left out. The pages beside the folder that state its numbers are in it, too.
    """
    paths = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    names = {path.relative_to(root).as_posix(): path for path in paths}
    names = {name: path for name, path in names.items() if not any(part.startswith(".") for part in name.split("/"))}
    names |= {f"../{page}": path for page in PAGES if (path := root.resolve().parent / page).is_file()}
    return {name: hashlib.sha256(files.read(path)).hexdigest() for name, path in names.items() if name != MANIFEST}
