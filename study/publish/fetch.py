"""The published results of this version, brought to where no checkout is.

The package carries their manifest, so every file is compared with its SHA-256, wherever it comes from.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from study import __version__, files
from study.errors import InputError
from study.folders import MANIFEST, PUBLISHED
from study.store.folder import sha256
from study.store.manifest import Results, shipped

TARGET = Path("results")
STAGING = Path(".results.fetching")
"""Folder of what was fetched, until all of it is there. A fetch that was interrupted continues there."""
TIMEOUT = 60
"""Seconds without an answer after which a download is given up."""
PLACES = "a checkout, its folder results, a .zip of it, or the URL of its files"


def fetch(place: str | None) -> int:
    """Bring the published results into the folder results, which appears when it is whole.

    Args:
        place: one of `PLACES`; None: the repository that the metadata of the package name.

    Returns:
        The number of bytes that were fetched; 0 if all files are here already.

    Raises:
        InputError: something else is where the files belong, or the place lacks a file of this version.
        OSError: a file cannot be written.
    """
    wanted = registry()
    beside = [name for name in wanted if not name.startswith(f"{TARGET}/")]
    if TARGET.is_dir() and Results(TARGET).manifest == shipped() and not any(Results(TARGET).changed()):
        return 0
    for path in (TARGET, *map(Path, beside)):
        if path.exists() and (path == TARGET or sha256(files.read(path)) != wanted[str(path)]):
            expected = f"expected none, or what version {__version__} has published, got something else"
            raise InputError(f"{path}: {expected}. Move it away, or fetch in another folder.")
    _stage(place, wanted)
    size = sum((STAGING / name).stat().st_size for name in wanted)
    for path in (STAGING / TARGET).rglob("*"):
        if path.is_file() and path.relative_to(STAGING).as_posix() not in wanted:
            path.unlink()  # a killed download has left it
    for name in (*beside, str(TARGET)):
        Path(name).parent.mkdir(exist_ok=True)
        os.replace(STAGING / name, name)
    shutil.rmtree(STAGING)
    return size


def registry() -> dict[str, str]:
    """Return the files to fetch, by their path from the top of a checkout, with their SHA-256.

    The manifest is one of them. The package has its own rules and predictions.
    """
    names = {posixpath.normpath(f"{TARGET}/{name}"): digest for name, digest in shipped().files.items()}
    names[f"{TARGET}/{MANIFEST}"] = sha256(files.read(PUBLISHED))
    return {name: digest for name, digest in names.items() if not name.startswith("study/")}


def _stage(place: str | None, wanted: dict[str, str]) -> None:
    """Fetch what is missing or damaged in `STAGING`. pooch compares checksums."""
    import pooch
    import requests
    from rich.console import Console
    from rich.progress import track

    base, download = _source(place or _repository())
    pooch.get_logger().setLevel("WARNING")
    store = pooch.Pooch(STAGING, base, wanted, retry_if_failed=1 if base else 0)
    console = Console(file=sys.stderr)
    for name in track(wanted, "fetching", console=console, transient=True, disable=not console.is_terminal):
        try:
            store.fetch(name, downloader=download)
        except (requests.RequestException, FileNotFoundError, ValueError, KeyError) as problem:
            why = " ".join(str(problem).split())[-160:]
            raise InputError(
                f"--from: expected {name} of version {__version__} in {place or base}, got another or none ({why}). "
                f"Name {PLACES}; the fetch continues."
            ) from None


def _source(place: str) -> tuple[str, Callable[..., Any]]:
    """Return what stands before the names of files, and the function that fetches a file.

    Raises:
        InputError: there are no results.
    """
    import pooch

    if "://" in place:
        return f"{place.rstrip('/')}/", pooch.HTTPDownloader(timeout=TIMEOUT)
    path = files.local(place).resolve()
    tops: list[Path | zipfile.Path] = [path, path.parent]
    if path.is_file() and zipfile.is_zipfile(path):
        archive = zipfile.Path(path)
        tops = [archive, *archive.iterdir()]
    top = next((top for top in tops if (top / f"{TARGET}/{MANIFEST}").is_file()), None)
    if top is None:
        raise InputError(f"--from: expected {PLACES}, got {place}, which has no {TARGET}/{MANIFEST}. Name another.")

    def copied(name: str, output: str, _: object) -> None:
        Path(output).write_bytes((top / name).read_bytes())

    return "", copied


def _repository() -> str:
    """Return the URL of the files of this version.

    Raises:
        InputError: the metadata of the package name no repository.
    """
    try:
        urls = metadata("attention-ablation").get_all("Project-URL") or []
    except PackageNotFoundError:  # a checkout that is not installed
        urls = []
    for label, _, url in (line.partition(", ") for line in urls):
        if label == "Repository":
            return f"{url.rstrip('/')}/raw/{'main' if 'dev' in __version__ else f'v{__version__}'}"
    raise InputError(f"--from: expected a place, since this package names no repository, got none. Name {PLACES}.")
