"""Files of `results/`: tables of runs, what follows from them, and a manifest of all.

`manifest.json` says which sweeps are published, what is missing of each, and the SHA-256 of every other file. Its own
SHA-256 is the root hash, which stands for everything that is published.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field

from study import files
from study.errors import InputError
from study.folders import CHECKOUT, MANIFEST, PUBLISHED, SWEEPS
from study.schema import Section
from study.store.folder import Store, read_section, sha256

RULES = (
    "claims.yaml",
    "predictions.yaml",
    "predictions_decoder_only.yaml",
    "predictions_decoder_only_multi30k.yaml",
    "predictions_decoder_only_transfer.yaml",
)
PAGES = ("docs/verdicts.md", *(f"study/claims/{name}" for name in RULES))
"""Beside the folder: the page that states its numbers, and the margins, rules and predictions that they follow from."""
GENERATED = ("tables/", "figures/", "../docs/")
"""Beginnings of the paths of files that `study reproduce` computes; the others are its sources."""
PRINTED = re.compile(r"(<!-- root -->\s+.*?`)([^`]*)`")
"""Root hash in the README beside the folder."""
HIDDEN = re.compile(r"(^|/)\.[^./]")


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

    def write(self, root: Path) -> None:
        """Write canonical JSON, as records have it."""
        tree = self.model_dump(mode="json")
        files.write(root / MANIFEST, json.dumps(tree, sort_keys=True, indent=1, ensure_ascii=False) + "\n")


@dataclass(frozen=True)
class Results:
    """A folder of published results."""

    root: Path

    @cached_property
    def store(self) -> Store:
        """The published runs."""
        return Store(self.root)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest; an empty one where nothing is published.

        Raises:
            InputError: the folder is absent, or the file is no manifest.
        """
        if not self.root.is_dir():
            raise InputError(
                f"{self.root}: no such folder. Make it with `study publish SWEEP`, bring the published one with "
                "`study fetch results`, or name another with --results."
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

    def file(self, sweep: str) -> Path:
        """Return the file of a published sweep: beside the folder, else of this study."""
        return beside(self.root, self.manifest.sweeps[sweep].file)

    @property
    def root_hash(self) -> str:
        """SHA-256 of the manifest: `sha256sum results/manifest.json` prints the same. Empty where there is none."""
        path = self.root / MANIFEST
        return sha256(files.read(path, below=self.root)) if path.is_file() else ""

    @property
    def printed_hash(self) -> str | None:
        """The root hash as the README beside the folder prints it; None where it does not."""
        readme = self.root.resolve().parent / "README.md"
        match = PRINTED.search(files.read_text(readme) if readme.is_file() else "")
        return match[2] if match else None

    def changed(self) -> Iterator[tuple[str, str]]:
        """Yield each file that is not as the manifest says: its path, and `a missing`, `a changed` or `a stray`.

        Rules and predictions that are not beside the folder are those of this package.
        """
        listed, hashed = self.manifest.files, hashes(self.root)
        rules = {name: beside(self.root, name.removeprefix("../")) for name in listed if name.startswith("../study/")}
        hashed |= {name: sha256(files.read(path)) for name, path in rules.items() if path.is_file()}
        for name in sorted(listed.keys() | hashed.keys()):
            if listed.get(name) != hashed.get(name):
                yield name, "a missing" if name not in hashed else "a stray" if name not in listed else "a changed"


def shipped() -> Manifest:
    """Return the manifest of the results that this version has published.

    Raises:
        InputError: the package has lost it.
    """
    return read_section(Manifest, PUBLISHED, "Install the package again.")


def beside(root: Path, name: str) -> Path:
    """Return a file by its path from the top of the repository: beside a folder of results, else of this study."""
    places = (root.resolve().parent, CHECKOUT, SWEEPS.parent)
    return next((place / name for place in places if (place / name).is_file()), CHECKOUT / name)


def write_manifest(root: Path, sweeps: Mapping[str, PublishedSweep] | None = None) -> None:
    """Write the manifest of a folder for the files that are there, with further published sweeps.

    Raises:
        OSError: it cannot be written.
        InputError: the one that is there cannot be read.
    """
    Manifest(sweeps={**Results(root).manifest.sweeps, **(sweeps or {})}, files=hashes(root)).write(root)


def hashes(root: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder but its manifest and hidden files, by its path from there.

    Links are left out. So are the pages beside the folder that its numbers follow from, or that state them.
    """
    paths = {f"../{page}": root.resolve().parent / page for page in PAGES}
    paths |= {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if not path.is_symlink()}
    content = {name: path for name, path in paths.items() if name != MANIFEST and not HIDDEN.search(name)}
    return {name: sha256(files.read(path)) for name, path in content.items() if path.is_file()}
