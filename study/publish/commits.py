"""Read from git the commits that made the runs, code differences between them, and uncommitted files."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from study.errors import InputError

DECIDING = tuple(
    f"study/{name}" for name in ("attention", "config", "corpora", "models", "training", "pruning", "scoring.py")
)
"""With requirements.lock: what decides a run's numbers."""


class Checkout:
    """A git checkout.

    Raises:
        InputError: the folder is in none.
    """

    def __init__(self, folder: Path) -> None:
        self.top = folder
        found = self._run("rev-parse", "--show-toplevel")
        if found is None:
            raise InputError(
                f"{folder}: expected a git checkout, which has the code of the runs, got none. Publish from a checkout."
            )
        self.top = Path(found)

    def require_committed(self, path: Path) -> str:
        """The file's path from the top.

        Raises:
            InputError: it is not in HEAD as it is here.
        """
        name = path.resolve().relative_to(self.top.resolve()).as_posix()
        tracked = self._run("ls-files", "--error-unmatch", "--", name) is not None
        if not tracked or self._run("status", "--porcelain", "--", name):
            raise InputError(f"{path}: expected a committed file, got changes. Commit it first.")
        return name

    def reaches(self, commit: str) -> bool:
        """Return True if HEAD is this commit or a descendant of it, so that a clone with HEAD can check it out."""
        return self._run("merge-base", "--is-ancestor", commit, "HEAD") is not None

    def state(self, commit: str) -> str:
        """8 hexadecimals that are the same for commits at which the same code decides numbers."""
        listing = self._run("ls-tree", commit, "--", *DECIDING, "requirements.lock") or ""
        return hashlib.sha256(listing.encode()).hexdigest()[:8]

    def changed(self, paths: Iterable[str]) -> list[str]:
        """Lines of `git status --porcelain` below these paths."""
        return (self._run("status", "--porcelain", "--untracked-files=all", "--", *paths) or "").splitlines()

    def _run(self, *arguments: str) -> str | None:
        """Run git and return its output; None if it fails."""
        try:
            done = subprocess.run(["git", *arguments], cwd=self.top, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.rstrip("\n")
