"""Mechanisms of a user's own: classes in a file outside the package, named from a field of the configuration.

A value such as `my_scores.py:Distance` names a class in a file. The configuration reads the facts of the class without
running the file, so that reports need no torch: `facts` must be a literal. The value becomes `Distance@` and the
SHA-256 of the file. So the content is part of the identity of an experiment, and the path is not. Training runs the
file (`study.attention.part`), and keeps a copy of it beside the record.

A file runs only if the command line names it, or has `--allow-code`. Reading a sweep, a record or a model allows
nothing.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
PLACES = ("out", "data", "trainer", "tracking")
"""Sections of a configuration that name no mechanism, but may name folders."""
ALLOWED, EVERY = "STUDY_ALLOWED_CODE", "every"
"""Variable with the SHA-256 of the files that may run here and in the processes that this one starts, or `every`."""
OPTION = "--allow-code"
MODULE = "study_mechanism_"
"""Beginning of the names of the modules that files of users' own become."""
FACTS = "plain values (texts, numbers, true or false, tuples of them), which can be read without running the file"

_known: dict[str, str] = {}
"""Digest ↦ content of every file read so far. Content decides the key, so that no order of reading matters."""
_paths: dict[str, str] = {}
"""Digest ↦ path under which a user named the file, for messages."""


class NotAllowedError(InputError):
    """Code that the command line does not name."""


@dataclass(frozen=True)
class Plugin:
    """One class of a user's file.

    Attributes:
        name: name of the class.
        text: content of the file.
        facts: what the class declares about itself. Without a formula there, that of its attribute `formula`, or the
            first line of its docstring.
    """

    name: str
    text: str
    facts: Mapping[str, Any]

    @property
    def value(self) -> str:
        """Name of the mechanism in identities and records, such as `Distance@1f0a…`."""
        return f"{self.name}@{digest(self.text)}"


def digest(text: str) -> str:
    """Return the SHA-256 of a file's content."""
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
        return _plugin(_known[match["digest"]], match["name"], value)
    if not (match := FILE.fullmatch(value)):
        raise ValueError(f"expected FILE.py:CLASS, got {value!r}")
    text = _content(match["path"])
    remember([text])
    _paths[digest(text)] = match["path"]
    return _plugin(text, match["name"] or "", match["path"])


def _content(path: str) -> str:
    try:
        return files.read(Path(path), LARGEST).decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file. Paths start at the working directory") from None
    except (OSError, UnicodeDecodeError, InputError) as problem:
        raise ValueError(f"{path}: cannot be read as UTF-8 ({problem})") from None


def _plugin(text: str, name: str, where: str) -> Plugin:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        line = f", line {problem.lineno}" if isinstance(problem, SyntaxError) else ""
        raise ValueError(f"{where}: no valid Python{line} ({problem.args[0]})") from None
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    mechanisms = [cls for cls, node in classes.items() if "facts" in _assigned(node)]
    listed = ", ".join(mechanisms) or "none"
    if not name and len(mechanisms) != 1:
        raise ValueError(f"{where}: expected one class with facts, got {listed}. Name it, such as {where}:CLASS")
    name = name or mechanisms[0]
    if name not in classes:
        raise ValueError(f"{where}: no such class: {name}. Classes with facts: {listed}")
    if name not in mechanisms:
        raise ValueError(f"{where}: class {name} has no facts. Add a line such as facts = dict(formula='q·k')")
    try:
        return Plugin(name, text, _facts(classes[name]))
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise ValueError(f"{where}: facts of class {name}: expected {FACTS}, got an expression") from None


def _facts(node: ast.ClassDef) -> dict[str, Any]:
    """Return the facts of a class, which are literals: a `dict(…)` or `{…}`, and its formula."""
    assigned = _assigned(node)
    value = assigned["facts"]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict" and not value.args:
        facts = {word.arg or "**": ast.literal_eval(word.value) for word in value.keywords}
    else:
        facts = ast.literal_eval(value)
    formula = ast.literal_eval(assigned["formula"]) if "formula" in assigned else (ast.get_docstring(node) or "\n")
    return {"formula": formula.strip().partition("\n")[0]} | dict(facts)


def _assigned(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Return what a class assigns to names of its own."""
    found: dict[str, ast.expr] = {}
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        found |= {target.id: value for target in targets if isinstance(target, ast.Name) and value is not None}
    return found


def from_command_line(arguments: Sequence[str]) -> list[str]:
    """Allow the files that a command line names, and all code if it has `--allow-code`; return the other arguments."""
    if OPTION in arguments:
        os.environ[ALLOWED] = EVERY
    allow(part for one in arguments for part in (one, *re.split(r"[=\s]", one)))
    return [one for one in arguments if one != OPTION]


def allow(values: Iterable[Any]) -> None:
    """Allow the files that a user named, such as `my_scores.py:Distance`, to run here and in processes started here."""
    named = [match["path"] for value in values if isinstance(value, str) and (match := FILE.fullmatch(value))]
    digests = [digest(_content(path)) for path in named if os.path.isfile(path)]
    os.environ[ALLOWED] = " ".join(dict.fromkeys([*os.environ.get(ALLOWED, "").split(), *digests]))


def check_allowed(plugin: Plugin) -> None:
    """Refuse code that the command line neither names nor allows.

    Raises:
        NotAllowedError: it does neither.
    """
    if not {EVERY, digest(plugin.text)} & set(os.environ.get(ALLOWED, "").split()):
        raise NotAllowedError(
            f"{plugin.name}: code of SHA-256 {digest(plugin.text)} came with a sweep, a run or a model, and does not "
            f"run unasked. Read it. To run it, add {OPTION}, or name its file on the command line."
        )


def check_every(values: Iterable[Any]) -> None:
    """Check the code of all mechanisms of users' own among values, before anything runs; see `check_allowed`."""
    for value in values:
        if isinstance(value, str) and NAME.fullmatch(value):
            check_allowed(read(value))


def check_resolved(config: Mapping[str, Any], where: str) -> None:
    """Refuse a file's name in the configuration of a record or a model, which has `CLASS@DIGEST` there.

    Raises:
        NotAllowedError: the configuration names a file.
    """
    for value in values_of(config):
        if isinstance(value, str) and FILE.fullmatch(value):
            raise NotAllowedError(
                f"{where}: expected a mechanism such as Distance@SHA-256, got {value!r}, which is not run "
                "unasked. Restore this file, or train again."
            )


def values_of(config: Mapping[str, Any]) -> Iterator[Any]:
    """Yield every value of a nested configuration, those of sections without numbers (`PLACES`) left out."""
    values = [value for name, value in config.items() if name not in PLACES]
    while values:
        value = values.pop()
        if isinstance(value, Mapping | list | tuple):
            values.extend(value.values() if isinstance(value, Mapping) else value)
        else:
            yield value


def remember(texts: Iterable[str]) -> None:
    """Make the content of files known, so that `CLASS@DIGEST` finds it."""
    _known.update({digest(text): text for text in texts})


def sources(values: Iterable[Any]) -> dict[str, str]:
    """Return the file of every mechanism of a user's own among values: `CLASS@DIGEST` ↦ content."""
    return {value: read(value).text for value in values if isinstance(value, str) and NAME.fullmatch(value)}


def keep(folder: Path, values: Iterable[Any]) -> None:
    """Write a copy of the file of every mechanism of a user's own among values beside a record.

    Raises:
        OSError: the folder cannot be written.
        ValueError: a file is known neither here nor in the folder.
    """
    learn(folder)
    for name, text in sources(values).items():
        if not (path := folder / FOLDER / f"{name}.py").is_file():
            files.write(path, text)


def learn(folder: Path) -> None:
    """Read the copies beside a record. A copy is known by its content, whatever its name says."""
    for path in (folder / FOLDER).glob("*@*.py"):
        with suppress(ValueError):
            remember([_content(str(path))])


def place(plugin: Plugin) -> str:
    """Return the name of a plugin's file in tracebacks: its path, or the name of the mechanism if no user named it."""
    return _paths.get(digest(plugin.text), f"<{plugin.name}@{digest(plugin.text)[:8]}>")


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
