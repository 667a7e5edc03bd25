"""Option parsing that all verbs share: mistakes in one line, old names of options, kinds of values."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from study.errors import InputError

RUNS = "folder of the runs (default: $STUDY_RUNS, else runs)"
"""Help of --runs, the same for every verb."""
RESULTS = "folder of the published results (default: results)"
"""Help of --results, the same for every verb."""


class Parser(argparse.ArgumentParser):
    """Argument parser of a verb. It raises a mistake as `InputError` instead of printing the usage."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False, **given})

    def alias(self, old: str, new: str, **kind: Any) -> None:
        """Accept the old name of an option. The help does not list it."""
        dest = new.lstrip("-").replace("-", "_")
        self.add_argument(old, dest=dest, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **kind)

    def error(self, message: str) -> NoReturn:
        """Raise the mistake."""
        flags = [flag for action in self._actions if action.help != argparse.SUPPRESS for flag in action.option_strings]
        raise InputError(f"{reworded(message, flags)} See `{self.prog} --help`.")


def reworded(message: str, flags: Iterable[str]) -> str:
    """Return a message of argparse in the form of this program: `field: expected X, got Y.` and a remedy.

    Args:
        message: the message.
        flags: the flags that the verb has, for a suggestion.
    """
    message = message.strip().removesuffix(".")
    if found := re.fullmatch(r"unrecognized arguments: (.*)", message, re.DOTALL):
        return _unknown(found[1].split()[0] if found[1].split() else found[1], flags)
    if found := re.fullmatch(r"the following arguments are required: (.*)", message):
        return f"{found[1]}: expected a value, got none."
    if found := re.fullmatch(r"argument ([^:]*): expected (?:one|at least one) argument", message):
        return f"{_shortest(found[1])}: expected a value, got none."
    if found := re.fullmatch(r"argument ([^:]*): not allowed with argument (.*)", message):
        return f"{_shortest(found[1])}: expected alone, got {_shortest(found[2])} too. Remove one."
    if found := re.fullmatch(r"argument ([^:]*): invalid choice: (.*) \(choose from (.*)\)", message):
        return f"{_shortest(found[1])}: expected {found[3]}, got {found[2]}."
    if found := re.fullmatch(r"argument ([^:]*): (.*)", message, re.DOTALL):
        return f"{_shortest(found[1])}: {found[2]}."
    return f"{message}."


def _shortest(names: str) -> str:
    """`-v/--verbose` ↦ `--verbose`."""
    return names.split("/")[-1]


def _unknown(word: str, flags: Iterable[str]) -> str:
    if not word.startswith("-"):
        name, given, value = word.partition("=")
        mend = f" Write --{name} {value}." if given and f"--{name}" in flags else ""
        return f"{word}: expected no further word.{mend}"
    flag = word.split("=")[0]
    return f"{flag}: expected an option of this verb, got an unknown one.{meant(flag, flags)}"


def meant(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean X?` for the nearest known word, or nothing.

    A dotted name is also near to the names that end alike: `--heads` to `--model.attention.heads`.
    """
    known = list(known)
    last = word.lstrip("-").split(".")[-1]
    alike = [name for name in known if name.lstrip("-").split(".")[-1] == last]
    near = sorted(alike, key=lambda name: name.count("."))[:1] or difflib.get_close_matches(word, known, n=1)
    return f" Did you mean {near[0]}?" if near else ""


def positive(text: str) -> int:
    """Whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def folder(path: Path, option: str) -> Path:
    """Return a folder that exists.

    Raises:
        InputError: it does not.
    """
    if not path.is_dir():
        raise InputError(f"{path}: no such folder. Name another with {option}.")
    return path


def runs_folder(given: str | None) -> Path:
    """Return the folder of the runs: the one given, else $STUDY_RUNS, else runs."""
    return Path(given or os.environ.get("STUDY_RUNS") or "runs")


def program() -> str:
    """Return the words that start this program in the user's shell: `study`, or Python with `-m study`."""
    script, found = Path(sys.executable).with_name("study"), shutil.which("study")
    if found and script.is_file() and os.path.samefile(found, script):
        return "study"
    near = os.path.relpath(sys.executable)
    return f"{shlex.quote(sys.executable if near.startswith('..') else near)} -m study"
