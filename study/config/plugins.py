"""Mechanisms of a user's own: classes in a file outside the package, named from a field of the configuration.

A value such as `my_scores.py:Distance` names a class in a file. The configuration reads the facts of the class without
running the file, so that reports need no torch: `facts` must be `dict(…)` of literals. The value becomes `Distance@`
and the SHA-256 of the file. So the content is part of the identity of an experiment, and the path is not. Training runs
the file (`study.attention.part`), and keeps a copy of it beside the record.

A file runs only if the command line names it, or has `--allow-code`. Reading a sweep, a record or a model allows
nothing.
"""

import ast
import hashlib
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study import files
from study.errors import InputError

NAME = re.compile(r"(?P<name>[^\W\d]\w*)@(?P<digest>[0-9a-f]{64})")
"""A mechanism of a user's own, as identities and records name it."""
FILE = re.compile(r"(?P<path>.*\.py)(:(?P<name>[^\W\d]\w*))?", re.DOTALL)
"""`FILE.py` or `FILE.py:CLASS`."""
FOLDER = "mechanisms"
"""Folder of copies, beside the record of a run and in `results/`."""
LARGEST = 1_000_000
"""Bytes of the largest file that is read."""
ALLOWED, EVERY = "STUDY_ALLOWED_CODE", "every"
"""Variable with the SHA-256 of the files that may run here and in the processes that this one starts, or `every`."""
OPTION = "--allow-code"
MODULE = "study_mechanism_"
"""Beginning of the names of the modules that files of users' own become."""

_known: dict[str, tuple[str, str]] = {}
"""SHA-256 ↦ path and content of every file read so far. Content decides the key, so the order of reading is free."""


@dataclass(frozen=True)
class Plugin:
    """One class of a user's file.

    Attributes:
        name: name of the class.
        text: content of the file.
        path: the file, for messages.
        facts: what the class declares about itself.
    """

    name: str
    text: str
    path: str
    facts: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return _sha256(self.text)

    @property
    def value(self) -> str:
        """Name of the mechanism in identities and records, such as `Distance@1f0a…`."""
        return f"{self.name}@{self.digest}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def is_own(value: Any) -> bool:
    """Return True for a value that names a mechanism of a user's own, by file or by content."""
    return isinstance(value, str) and (NAME.fullmatch(value) or FILE.fullmatch(value)) is not None


def read(value: str) -> Plugin:
    """Return the class that a value names.

    Args:
        value: `FILE.py:CLASS`, `FILE.py` for a file with one mechanism, or `CLASS@DIGEST` for a file read before.

    Raises:
        ValueError: there is no such file, class or facts, or the file is no Python. One line.
    """
    if match := NAME.fullmatch(value):
        if match["digest"] not in _known:
            raise ValueError(
                f"no file is known for {value}. Name the file, such as my_file.py:{match['name']}; "
                f"runs keep a copy in their folder {FOLDER}/"
            )
        return _plugin(*_known[match["digest"]], match["name"])
    if not (match := FILE.fullmatch(value)):
        raise ValueError(f"expected FILE.py:CLASS, got {value!r}")
    text = _content(match["path"])
    _known[_sha256(text)] = (match["path"], text)
    return _plugin(match["path"], text, match["name"])


def _content(path: str) -> str:
    try:
        return files.read(Path(path), LARGEST).decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file. Paths start at the working directory") from None
    except (OSError, UnicodeDecodeError, InputError) as problem:
        raise ValueError(f"{path}: cannot be read as UTF-8 ({problem})") from None


def _plugin(path: str, text: str, name: str | None) -> Plugin:
    """Return the class of this name, or the only class with facts; its facts are read without running the file."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise ValueError(f"{path}: no valid Python ({problem})") from None
    found = {}
    for node in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for statement in node.body:
            match statement:
                case ast.Assign([ast.Name("facts")], ast.Call(ast.Name("dict"), [], facts)):
                    found[node.name] = facts
    name = name or (next(iter(found)) if len(found) == 1 else "")
    if name not in found:
        listed = ", ".join(found) or "none"
        raise ValueError(f"{path}: expected a class with facts = dict(formula=…) ({listed}), got {name or 'no name'}")
    try:
        return Plugin(name, text, path, {fact.arg or "**": ast.literal_eval(fact.value) for fact in found[name]})
    except (ValueError, TypeError):
        raise ValueError(f"{path}: facts of class {name}: expected plain values, got an expression") from None


def from_command_line(arguments: Sequence[str]) -> list[str]:
    """Allow the files that a command line names, and all code if it has `--allow-code`; return the other arguments."""
    if OPTION in arguments:
        os.environ[ALLOWED] = EVERY
    allow(part for one in arguments for part in (one, *re.split(r"[=\s]", one)))
    return [one for one in arguments if one != OPTION]


def allow(values: Iterable[Any]) -> None:
    """Allow the files that a user named, such as `my_scores.py:Distance`, to run here and in processes started here."""
    named = [match["path"] for value in values if isinstance(value, str) and (match := FILE.fullmatch(value))]
    known = os.environ.get(ALLOWED, "").split()
    for path in filter(os.path.isfile, named):
        with suppress(ValueError):  # `read` says what is wrong with the file
            known.append(_sha256(_content(path)))
    os.environ[ALLOWED] = " ".join(dict.fromkeys(known))


def check_allowed(plugin: Plugin) -> None:
    """Refuse code that the command line neither names nor allows.

    Raises:
        InputError: it does neither.
    """
    if not {EVERY, plugin.digest} & set(os.environ.get(ALLOWED, "").split()):
        raise InputError(
            f"{plugin.name}: code of SHA-256 {plugin.digest} came with a sweep, a run or a model, and does not "
            f"run unasked. Read it. To run it, add {OPTION}, or name its file on the command line."
        )


def among(values: Iterable[Any]) -> list[Plugin]:
    """Return every mechanism of a user's own among values of a resolved configuration."""
    return [read(value) for value in values if isinstance(value, str) and NAME.fullmatch(value)]


def remember(texts: Iterable[str], path: str = "a model") -> None:
    """Make the content of files known, so that `CLASS@DIGEST` finds it. A path that a user named stays."""
    for text in texts:
        _known.setdefault(_sha256(text), (path, text))


def keep(folder: Path, values: Iterable[Any]) -> None:
    """Write a copy of the file of every mechanism of a user's own among values beside a record."""
    for plugin in among(values):
        if not (path := folder / FOLDER / f"{plugin.value}.py").is_file():
            files.write(path, plugin.text)


def learn(folder: Path) -> None:
    """Read the copies beside a record. A copy is known by its content, whatever its name says."""
    for path in (folder / FOLDER).glob("*@*.py"):
        with suppress(ValueError):
            remember([_content(str(path))], str(path))


def line_of(problem: BaseException) -> str:
    """Return the last line of a user's own file that an exception passed, such as `mine.py:12, Mine.forward`; or ''."""
    found = ""
    for frame, line in traceback.walk_tb(problem.__traceback__):
        if frame.f_globals.get("__name__", "").startswith(MODULE):
            found = f"{frame.f_code.co_filename}:{line}, {frame.f_code.co_qualname}"
    return found


def running() -> list[str]:
    """Return the files of users' own that this process has run."""
    return sorted(str(module.__file__) for name, module in sys.modules.items() if name.startswith(MODULE))
