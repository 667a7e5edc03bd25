"""What the verbs share on the command line: mistakes in one line, and kinds of options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from study.errors import InputError


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a mistake like the rest of the program: in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        raise InputError(f"{message}; see `{self.prog} --help`")


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, not {text!r}")
    return int(text)


def folder(path: Path, option: str) -> Path:
    """A folder that has to be there.

    Raises:
        InputError: it is not.
    """
    if not path.is_dir():
        raise InputError(f"{path}: no such folder; {option} gives another")
    return path
