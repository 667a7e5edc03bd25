"""The parser of every verb, the options that verbs share, and what they print."""

import argparse
import difflib
import itertools
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from study import files
from study.errors import InputError, shown
from study.folders import runs_folder as runs_folder
from study.store.find import RUN


class OnePath(argparse.Action):
    """Keeps the value of an option. A second file or folder is refused, since it would hide the first one."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        """Set the value. Of numbers and texts the last one counts, as in every program."""
        first = getattr(namespace, self.dest, self.default)
        if option_string and isinstance(first, Path) and first is not self.default:
            raise argparse.ArgumentError(self, f"expected once, got {first} and {values}; give one")
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """Argument parser of a verb. A mistake becomes an `InputError`, in the words of argparse."""

    def __init__(self, verb: str, about: str | None, *shared: str, usage: str | None = None) -> None:
        """Make the parser of a verb, with the docstring of its module and options that several verbs have."""
        kind, text = argparse.RawDescriptionHelpFormatter, "\n".join(paragraphs(about or ""))
        super().__init__(f"study {verb}", usage, text, formatter_class=kind, allow_abbrev=False)
        self.register("type", Path, path)
        self.register("action", None, OnePath)
        self.share(*shared)

    def add_argument_group(self, title: str, description: str | None = None) -> Any:  # type: ignore[override]
        """Add a group of options, with a description as wide as the terminal."""
        return super().add_argument_group(title, "\n".join(paragraphs(description or "")))

    def share(self, *names: str) -> None:
        """Add options that several verbs have, by their names."""
        for name in names:
            self.add_argument(name, **SHARED[name])

    def error(self, message: str) -> NoReturn:
        """Raise the mistake; beside an unknown option, its nearest name."""
        word = message.removeprefix("unrecognized arguments: ").split(" ")[0].split("=")[0]
        flags = [flag for action in self._actions for flag in action.option_strings]
        near = suggest(word, flags) if message.startswith("unrecognized") else ""
        raise InputError(f"{message.removeprefix('argument ')}.{near} See `{self.prog} --help`.")


def suggest(word: str, names: Iterable[str]) -> str:
    """Return ` Did you mean X?` for the nearest known word, or nothing.

    A dotted name is also near to the names that end alike: `--heads` to `--model.attention.heads`.
    """
    names = list(names)
    last = word.lstrip("-").split(".")[-1]
    alike = [name for name in names if name.lstrip("-").split(".")[-1] == last]
    near = sorted(alike, key=lambda name: name.count("."))[:1] or difflib.get_close_matches(word, names, n=1)
    return f" Did you mean {near[0]}?" if near else ""


def natural(text: str, least: int = 0) -> int:
    """Whole number from 0 to 999,999,999."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least} to 999,999,999, got {text[:40]!r}")
    return int(text)


def positive(text: str) -> int:
    """Whole number from 1."""
    return natural(text, 1)


def path(text: str) -> Path:
    """File or folder on this machine. A leading ~ is the user's home, also after `=`, where no shell expands it."""
    try:
        return files.local(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


PIECE = re.compile(r"\s+|[^\s/]*/|[^\s/]+")
"""Parts of a text that a fold in a column of a table keeps together."""
NARROWEST = 8
"""Letters that the last column of a table has at least."""
SITES = ("cross", "joint", "encoder_self", "decoder_self")
SHARED: dict[str, dict[str, Any]] = {
    "run": {"metavar": "RUN", "help": RUN},
    "sweep": {"type": Path, "metavar": "SWEEP", "help": "a sweep file, or the name of a sweep of this study"},
    "--runs": {"type": Path, "metavar": "DIR", "help": "folder of the runs (default: $STUDY_RUNS, else runs)"},
    "--results": {"type": Path, "metavar": "DIR", "help": "folder of the published results (default: results)"},
    "--claims": {"type": Path, "metavar": "FILE", "help": "your own claims, added to those of this study"},
    "--out": {"type": Path, "metavar": "DIR", "help": "folder of the output"},
    "--split": {"metavar": "NAME", "help": "split of the corpus (default: its first test split)"},
    "--plot": {"type": Path, "metavar": "FILE", "help": "also draw the picture FILE, a .png or .svg"},
    "--beam": {"type": positive, "metavar": "K", "help": "beam width (default: as in the test of the run)"},
    "--site": {"choices": SITES, "help": "attention site (default: cross, or joint in a decoder-only model)"},
    "--layer": {"type": natural, "metavar": "N", "help": "layer, from 0 (default: the last)"},
    "--head": {"type": natural, "metavar": "N", "help": "head, from 0 (default: the mean over heads)"},
    "--data": {"type": Path, "metavar": "DIR", "help": "folder of the corpus, if it is Multi30k or text of your own"},
    "--csv": {"action": "store_true", "help": "print CSV, with all rows and columns"},
}
"""Option ↦ arguments of `add_argument`, the same for every verb that has it."""


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
    script = str(Path(sys.executable).with_name("study"))
    return "study" if shutil.which("study") == script else f"{shlex.quote(sys.executable)} -P -m study"


def write_picture(figure: Any, path: Path, option: str = "--plot") -> None:
    """Write a figure as a PNG, or as an SVG if the name ends so.

    Raises:
        InputError: the name is of another kind.
        OSError: the file cannot be written.
    """
    from study.analysis.figures import style

    if not path.name or path.suffix not in ("", ".png", ".svg"):
        kinds = ".gif, .png or .svg" if option == "--maps" else ".png or .svg"
        raise InputError(f"{option}: expected a name that ends in {kinds}, got {str(path)!r}.")
    style.write_picture(figure, path)
    print(f"picture  {path}", file=sys.stderr)


def translation_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return --beam, --site, --layer and --head, as `Run.translate` takes them."""
    return {name: getattr(args, name) for name in ("beam", "site", "layer", "head")}


def say(*lines: str) -> None:
    """Print lines. Control characters in them, which may come from somebody else's record, are escaped."""
    print("\n".join(map(shown, lines)), flush=True)


def columns() -> int:
    """Return the letters of a line: those of the terminal, else 100."""
    return shutil.get_terminal_size((100, 24)).columns


def paragraphs(text: str) -> list[str]:
    """Return the lines of a text, as long as the terminal has them. An indented line stays a line of its own."""
    text = re.sub(r"(?m)(^ +- .*)\n +(?=[^ -])", r"\1 ", re.sub(r"(?<=\S)\n(?=\S)", " ", text))
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" -")))
        lines += textwrap.wrap(line, columns(), subsequent_indent=indent) or [""]
    return lines


def table_lines(rows: Sequence[dict[Any, Any]]) -> Iterator[str]:
    """Yield the lines of a table with the keys as its head.

    In a terminal, the widest columns are folded, at blanks and after slashes, until the table fits; the last one also
    within words. Elsewhere a row is a line, for other programs.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    texts = [list(map(str, names)), *([_cell(row.get(name)) for name in names] for row in rows)]
    by_column = list(zip(*texts, strict=True))
    widths = [max(map(len, column)) for column in by_column]
    least = [max(len(piece) for text in column for piece in (*PIECE.findall(text), "")) for column in by_column]
    least[-1:] = [min(low, NARROWEST) for low in least[-1:]]  # a table without rows has no column
    room = columns() - 2 * (len(names) - 1)
    while sys.stdout is not None and sys.stdout.isatty() and sum(widths) > room:
        spare, widest = max(
            (width if width > low else 0, at) for at, (width, low) in enumerate(zip(widths, least, strict=True))
        )
        if not spare:
            break
        widths[widest] -= 1
    for line in texts:
        cells = [_folded(text, width) for text, width in zip(line, widths, strict=True)]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            yield "  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()


def _folded(text: str, width: int) -> list[str]:
    """Return the lines of a text in a column."""
    if len(text) <= width:
        return [text]
    lines = [""]
    for piece in PIECE.findall(text):
        if len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] = (lines[-1] + piece).lstrip()
    return [line[at : at + width].rstrip() for line in lines for at in range(0, len(line.rstrip()), width)]


def record_lines(row: dict[Any, Any]) -> Iterator[str]:
    """Lines of one row of a table, one per column."""
    width = max(len(str(name)) for name in row)
    yield from (f"  {name:<{width}}  {_cell(value)}" for name, value in row.items())


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
