"""Option parsing that all verbs share: mistakes in one line, old names of options, kinds of values."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from study import files
from study.errors import InputError, shown
from study.store import runs_folder as runs_folder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RUNS = "folder of the runs (default: $STUDY_RUNS, else runs)"
"""Help of --runs, the same for every verb."""
RESULTS = "folder of the published results (default: results)"
"""Help of --results, the same for every verb."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. Paragraphs are filled; indented lines, such as lists, stay lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = []
        for paragraph in text.strip().split("\n\n"):
            lines = paragraph.splitlines()
            if not any(line.startswith(" ") for line in lines):
                lines = [" ".join(lines)]
            for line in re.sub(r"\n {4,}(?=\S)", " ", "\n".join(lines)).split("\n"):  # a list item of several lines
                more = "" if line == line.lstrip() else "    " if line.lstrip().startswith("- ") else "      "
                filled += textwrap.wrap(line, width, initial_indent=indent, subsequent_indent=indent + more)
            filled.append("")
        return "\n".join(filled[:-1])


class Parser(argparse.ArgumentParser):
    """Argument parser of a verb. It raises a mistake as `InputError` instead of printing the usage."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"formatter_class": Help, "allow_abbrev": False, **given})
        self.given: set[str] = set()
        self.register("type", Path, path)
        for name in (None, "store"):
            self.register("action", name, Once)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words of a verb.

        Raises:
            InputError: an unknown option, an option twice, or a value that is missing, empty or wrong.
        """
        found = super().parse_args(None if args is None else join_negatives(args), namespace)
        for name, value in vars(found).items():
            if value == "":
                raise InputError(f"{name}: expected a text, got an empty one. See `{self.prog} --help`.")
        return found

    def alias(self, old: str, new: str, **kind: Any) -> None:
        """Accept the old name of an option. The help does not list it."""
        dest = new.lstrip("-").replace("-", "_")
        self.add_argument(old, dest=dest, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **kind)

    def error(self, message: str) -> NoReturn:
        """Raise the mistake."""
        flags = [flag for action in self._actions if action.help != argparse.SUPPRESS for flag in action.option_strings]
        raise InputError(f"{rewrite_message(message, flags)} See `{self.prog} --help`.")


class Once(argparse.Action):
    """Value of an option that may be given once: by default the later value silently wins."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Store the value."""
        if option_string is not None and self.dest in parser.given:
            raise argparse.ArgumentError(self, "expected once, got it twice")
        if option_string is not None:
            parser.given.add(self.dest)
        setattr(namespace, self.dest, values)


def join_negatives(words: Iterable[str]) -> list[str]:
    """Join an option and a negative number, which argparse takes for an option if it has an exponent: `--a=-1e-3`."""
    out: list[str] = []
    for word in words:
        if NEGATIVE.fullmatch(word) and out and out[-1].startswith("--") and "=" not in out[-1]:
            out[-1] += f"={word}"
        else:
            out.append(word)
    return out


NEGATIVE = re.compile(r"-((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf|nan)", re.IGNORECASE | re.ASCII)


def rewrite_message(message: str, flags: Iterable[str]) -> str:
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
    return f"{flag}: expected an option of this verb, got an unknown one.{suggest(flag, flags)}"


def suggest(word: str, known: Iterable[str]) -> str:
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
    if not WHOLE.fullmatch(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 999,999,999, got {text[:40]!r}")
    return int(text)


def natural(text: str) -> int:
    """Whole number from 0."""
    if not WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to 999,999,999, got {text[:40]!r}")
    return int(text)


WHOLE = re.compile("[0-9]{1,9}")
"""Digits of this script alone: int() reads those of every script."""


def path(text: str) -> Path:
    """File or folder on this machine. A leading ~ is the user's home, also after `=`, where no shell expands it."""
    try:
        return files.local(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def picture(text: str) -> Path:
    """File of a picture, a PNG or an SVG by its ending; a name without an ending is a PNG."""
    found = path(text)
    if not found.name or found.suffix.lower() not in ("", ".png", ".svg"):
        raise argparse.ArgumentTypeError(f"expected a name that ends in .png or .svg, got {text[:80]!r}")
    return found


def folder(path: Path, option: str) -> Path:
    """Return a folder that exists.

    Raises:
        InputError: it does not.
    """
    if not path.is_dir():
        raise InputError(f"{path}: no such folder. Name another with {option}.")
    return path


def program() -> str:
    """Return the words that start this program in the user's shell: `study`, or Python with `-P -m study`."""
    script, found = Path(sys.executable).with_name("study"), shutil.which("study")
    if found and script.is_file() and os.path.samefile(found, script):
        return "study"
    near = os.path.relpath(sys.executable)
    return f"{shlex.quote(sys.executable if near.startswith('..') else near)} -P -m study"


@contextmanager
def named_as_flags(*names: str) -> Iterator[None]:
    """Let messages about a parameter of the Python API, such as `site: …`, name the flag of the verb: `--site: …`.

    Raises:
        InputError: with the flag in front.
    """
    try:
        yield
    except InputError as problem:
        if str(problem).partition(":")[0] not in names:
            raise
        raise InputError(f"--{problem}") from None


def add_site(parser: Parser) -> None:
    """Add the options that choose one attention of a model."""
    parser.add_argument(
        "--site",
        choices=("cross", "encoder_self", "decoder_self"),
        default="cross",
        help="attention site: cross, encoder_self or decoder_self (default: cross)",
    )
    parser.add_argument("--layer", type=natural, metavar="N", help="layer, from 0 (default: the last)")
    parser.add_argument("--head", type=natural, metavar="N", help="head, from 0 (default: the mean over heads)")


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG, or as an SVG if the name ends so.

    Raises:
        InputError: the file cannot be written.
    """
    from study.analysis.figures import style

    try:
        style.write_picture(figure, path)
    except OSError as problem:
        raise InputError(f"{path}: cannot be written ({problem.strerror}). Name another file with --plot.") from None
    print(f"picture  {path}", file=sys.stderr)


def add_formats(parser: Parser) -> None:
    """Add --json and --csv, which print a table for other programs."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="print JSON: a list of objects, one for each row")
    group.add_argument("--csv", action="store_true", help="print CSV")


def print_frame(frame: pd.DataFrame, args: argparse.Namespace) -> bool:
    """Print a table as --json or --csv wants it; False if neither is given."""
    if args.json:
        print_json(json.loads(frame.to_json(orient="records")))
    elif args.csv:
        print(frame.to_csv(index=False, lineterminator="\n"), end="")
    return bool(args.json or args.csv)


def print_json(tree: Any) -> None:
    """Print data as JSON."""
    print(json.dumps(tree, ensure_ascii=False, indent=1))


def say(*lines: str) -> None:
    """Print lines. Control characters in them, which may come from somebody else's record, are escaped."""
    print("\n".join(map(shown, lines)), flush=True)


def table_lines(rows: Sequence[dict[Any, Any]]) -> Iterator[str]:
    """Lines of a table, one per row, with the keys as its head. The last column is as long as it needs."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    texts = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in texts) for i in range(len(names))]
    for line in texts:
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
