"""The command line: `study VERB …`, also `python -P -m study VERB …`. A verb's module is imported when it is called."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import textwrap
import traceback
from collections.abc import Sequence
from pathlib import Path

from study import __version__
from study.commands import GROUPS, VERBS
from study.config import plugins
from study.errors import BROKEN, BUSY, EXIT_STATUS, INSTALL, INTERRUPTED, UNWRITTEN, BusyError, InputError, shown
from study.files import collect_seldom, is_text

TRACEBACK = "STUDY_TRACEBACK"
"""In the environment: print the traceback of whatever ends a command."""
LONGEST = 300
"""Characters of an unexpected error's own text."""
EXTRAS = {
    **dict.fromkeys(("torch", "pytorch_lightning", "sentencepiece", "entmax"), "train"),
    "wandb": "wandb",
    "typst": "paper",
    "submitit": "slurm",
    "ray": "ray",
}
"""Module ↦ the extra that installs it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb, `study.commands.<verb>.main`, and return the exit status (`study.errors.EXIT_STATUS`).

    Whatever cannot be written to standard output ends the verb: quietly if the reader has gone, as that of `| head`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    collect_seldom()
    # A notebook's backend is no module of this environment. Nothing here opens a window.
    os.environ["MPLBACKEND"] = "agg"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _guarded(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as ending:  # argparse's --help, or a signal
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except OSError as problem:
        code = _unwritten(problem)
    return code


def _unwritten(problem: OSError) -> int:
    """Return the status where standard output cannot be written, and let nothing write to it any more."""
    if not isinstance(problem, BrokenPipeError):
        print(f"study: standard output cannot be written ({problem.strerror})", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes what is left when it ends
    return UNWRITTEN


def _guarded(arguments: list[str]) -> int:
    """Return the status of a verb, each of its exceptions turned into one line."""
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as problem:
        if isinstance(problem, OSError) and problem.filename is None and problem.errno in (errno.EPIPE, errno.ENOSPC):
            raise
        if os.environ.get(TRACEBACK):
            traceback.print_exception(problem)
        line, code = _explained(problem)
        print("study: " + shown(" ".join(line.splitlines())), file=sys.stderr)
        return code


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return 0 if arguments else 2
    verb, *rest = arguments
    if verb == "--version":
        print(__version__)
        return 0
    if verb not in VERBS:
        raise InputError(_unknown(verb))
    for argument in rest:
        if "\0" in argument or not is_text(argument):
            raise InputError(f"{argument[:40]!r}: expected UTF-8 text without NUL, got other bytes. Type it as UTF-8.")
    code: int = importlib.import_module(f"study.commands.{verb}").main(plugins.from_command_line(rest))
    return code


def _explained(problem: Exception) -> tuple[str, int]:
    """One line about an exception, and the exit status."""
    if isinstance(problem, InputError):
        return str(problem), BUSY if isinstance(problem, BusyError) else 2
    if isinstance(problem, ModuleNotFoundError) and problem.name in EXTRAS:
        return f"{problem.name}: not installed, and this verb needs it. " + INSTALL.format(EXTRAS[problem.name]), 2
    if isinstance(problem, OSError) and isinstance(problem.filename, str):
        remedy = "Make room" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else "Check the name and your rights"
        return f"{problem.filename}: {problem.strerror}. {remedy}, then repeat the command.", 2
    if isinstance(problem, MemoryError) or "alloc" in str(problem):  # torch has a RuntimeError for it
        return "not enough memory. Use a smaller model, smaller batches or less data.", 2
    where = traceback.extract_tb(problem.__traceback__)[-1]
    what = f"{type(problem).__name__}: {problem}".removesuffix(": ")[:LONGEST]
    if line := plugins.line_of(problem):
        return f"{line}: {what}. Correct this line; `study check` tests the file", 2
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(problem.__traceback__)]
    if (own := plugins.running()) and any(name.startswith(("study.attention", "study.models")) for name in modules):
        return f"{' or '.join(own)}: expected a mechanism that fits, got {what}. `study check` finds the mistake", 2
    return (
        f"error of the program, in {Path(where.filename).name}:{where.lineno}: {what}. Please report it with your "
        f"command; {TRACEBACK}=1 before the command prints the details to send",
        BROKEN,
    )


def overview() -> str:
    """Help of the whole program: verbs in groups, then exit statuses."""
    width = max(map(len, VERBS))
    lines = ["usage: study VERB [OPTION ...]"]
    for title, verbs in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {verb:<{width}}  {line}" for verb, line in verbs.items())]
    statuses = ", ".join(f"{code} {meaning}" for code, meaning in EXIT_STATUS.items())
    lines += ["", *textwrap.wrap(f"exit status: {statuses}", 118, subsequent_indent="  ")]
    lines += ["--allow-code, with any verb: run code that a sweep file, a run or a model brings"]
    lines += ["`study VERB --help` lists the options of a verb, `study --version` prints the version."]
    return "\n".join(lines)


def _unknown(verb: str) -> str:
    from study.commands.options import suggest

    return f"{verb}: expected a verb, got an unknown one.{suggest(verb, VERBS)} `study --help` lists all verbs."


if __name__ == "__main__":  # trials import this module again under another name
    sys.exit(main())
