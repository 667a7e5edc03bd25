"""Folders of the study: its checkout, sweep files, runs, and published results."""

from __future__ import annotations

import os
from pathlib import Path

from study.errors import InputError
from study.files import local

CHECKOUT = Path(__file__).parents[1]
"""Folder above the package: the checkout, whose `results`, `sweeps` and `docs` a wheel does not have."""
SWEEPS = Path(__file__).with_name("sweeps")
"""Sweep files of this study: in a checkout a link to its folder `sweeps`."""
PUBLISHED = Path(__file__).with_name("published.json").resolve()
"""Manifest of the results that this version has published: in a checkout a link to that of its folder `results`."""
MANIFEST, RUNS = "manifest.json", "runs"
"""A file and a folder of tables by which a published folder is known."""


def is_results(folder: Path) -> bool:
    """Return True if this is a folder of published results rather than of runs."""
    return (folder / MANIFEST).is_file() or any((folder / RUNS).glob("*.parquet"))


def runs_folder(given: str | Path | None = None) -> Path:
    """Return the folder of the runs: the one given, else $STUDY_RUNS, else runs.

    Raises:
        InputError: it is no name of a folder.
    """
    name, text = ("--runs", given) if given is not None else ("STUDY_RUNS", os.environ.get("STUDY_RUNS") or "runs")
    try:
        return local(str(text))
    except ValueError as problem:
        raise InputError(f"{name}: {problem}.") from None


def require_working(folder: Path) -> None:
    """Refuse to make runs among published ones, whose files only `study publish` writes.

    Raises:
        InputError: the folder has published results.
    """
    if is_results(folder):
        problem = f"{folder}: expected a folder of working runs, got published results."
        raise InputError(f"{problem} Name another with --runs.")


def published() -> Path:
    """Return the folder of published results: that of the working directory, else that of this package's checkout."""
    results = Path("results")
    return results if is_results(results) else CHECKOUT / "results"


def results_folder(option: str = "--runs") -> Path:
    """Return the folder of published results.

    Raises:
        InputError: there is none; `option` names one.
    """
    if not (folder := published()).is_dir():
        raise InputError(
            "results: expected published results, got none here. `study fetch results` brings them; or name a folder "
            f"of them with {option}, in Python with runs."
        )
    return folder


def sweeps_folder() -> Path:
    """Return the folder of sweep files: that of the working directory, else that of this study."""
    return Path("sweeps") if Path("sweeps").is_dir() else SWEEPS


def sweep_file(name: str | Path) -> Path:
    """Return the sweep file of a path, or of the name of a sweep: in `sweeps`, in this folder, or of this study."""
    path = Path(name)
    if not path.is_file() and str(path.parent) in (".", "sweeps"):
        folders = (Path("sweeps"), Path(), SWEEPS)
        places = [folder / end for folder in folders for end in (f"{path.name}.yaml", path.name)]
        return next(filter(Path.is_file, places), path)
    return path


def sweeps_of(folder: Path) -> Path:
    """Return the folder of sweep files: beside a folder of runs, in the working directory, or those of this study."""
    beside = folder.resolve().parent / "sweeps"
    return beside if beside.is_dir() else sweeps_folder()
