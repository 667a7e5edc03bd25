"""The git checkout whose commits have made the runs."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from study.errors import InputError

DECIDING = tuple(
    f"study/{name}"  # scoring.py until it moved
    for name in ("attention", "config", "corpora", "models", "training", "pruning", "scoring.py", "scores/scoring.py")
)
"""With requirements.lock: what decides a run's numbers."""


class Checkout:
    """A git checkout.

    Raises:
        InputError: the folder is in none.
    """

    def __init__(self, folder: Path) -> None:
        self.top = folder
        top = self._run("rev-parse", "--show-toplevel")
        if top is None:
            raise InputError(
                f"{folder}: expected a git checkout, which has the code of the runs, got none. Publish from a checkout."
            )
        self.top = Path(top)
        self.reaches = cache(self._reaches)
        self.state = cache(self._state)

    def require_committed(self, path: Path) -> str:
        """Return the file's path from the top.

        Raises:
            InputError: it is not in HEAD as it is here.
        """
        name = path.resolve().relative_to(self.top.resolve()).as_posix()
        if self._run("ls-files", "--error-unmatch", "--", name) is None or self.changed([name]):
            raise InputError(f"{path}: expected a committed file, got changes. Commit it first.")
        return name

    def _reaches(self, commit: str) -> bool:
        """Return True if HEAD is this commit or a descendant of it, so that a clone with HEAD can check it out."""
        return self._run("merge-base", "--is-ancestor", commit, "HEAD") is not None

    def _state(self, commit: str) -> str:
        """8 hexadecimals that are the same for commits at which the same code decides numbers."""
        listing = self._run("ls-tree", commit, "--", *DECIDING, "requirements.lock") or ""
        return hashlib.sha256(listing.encode()).hexdigest()[:8]

    def changed(self, paths: Iterable[str]) -> list[str]:
        """Lines of `git status --porcelain` below these paths."""
        return (self._run("status", "--porcelain", "--untracked-files=all", "--", *paths) or "").splitlines()

    def commits(self) -> set[str]:
        """Return all commits of the history of HEAD; none in a shallow clone."""
        if self._run("rev-parse", "--is-shallow-repository") != "false":
            return set()
        return set((self._run("rev-list", "HEAD") or "").split())

    def _run(self, *arguments: str) -> str | None:
        """Run git and return its output; None if it fails."""
        try:
            git = subprocess.run(["git", *arguments], cwd=self.top, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return git.stdout.rstrip("\n")


def history(folder: Path) -> set[str]:
    """Return all commits of the history that a folder stands in; none outside a checkout, and in a shallow clone."""
    try:
        return Checkout(folder.resolve().parent).commits()
    except InputError:
        return set()
