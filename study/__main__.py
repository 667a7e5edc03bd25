"""The command line: `study VERB …`, also `python -P -m study VERB …`. A verb's module is imported when it is called."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import io
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Sequence
from pathlib import Path

from study import __version__, errors
from study.commands import GROUPS, VERBS
from study.errors import INSTALL, BusyError, InputError, LostError, shown
from study.files import collect_seldom, is_text

TRACEBACK = "STUDY_TRACEBACK"
"""In the environment: print the traceback of whatever ends a command."""
EXTRAS = {
    **dict.fromkeys(("torch", "pytorch_lightning", "sentencepiece", "entmax"), "train"),
    "wandb": "wandb",
    "typst": "paper",
    "submitit": "slurm",
    "ray": "ray",
}
"""Module ↦ the extra that installs it."""
READERS = ("ls", "show", "claims")
"""Verbs that print what records say and multiply no matrices."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb, `study.commands.<verb>.main`, and return the exit status (`study.errors.EXIT_STATUS`).

    Each exception becomes one line. If standard output cannot be written, the verb ends, and quietly if its reader has
    gone, as that of `| head`.
    """
    collect_seldom(200_000)
    for standard in range(3):  # a closed one would be given to a pipe of the engine, and then to a log
        try:
            os.fstat(standard)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # A notebook's backend is no module of this environment. Nothing here opens a window.
    os.environ["MPLBACKEND"] = "agg"
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # a look into every installed package, for none of ours
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as ending:  # argparse's --help, or a signal
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except KeyboardInterrupt:
        code = errors.INTERRUPTED
    except Exception as problem:
        if os.environ.get(TRACEBACK):
            traceback.print_exception(problem)
        line, code = _explained(problem)
        if line:
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
        from study.commands.options import suggest

        hint = f"{suggest(verb, VERBS)} `study --help` lists all verbs."
        raise InputError(f"{verb}: expected a verb, got an unknown one.{hint}")
    for argument in rest:
        if "\0" in argument or not is_text(argument):
            raise InputError(f"{argument[:40]!r}: expected UTF-8 text without NUL, got other bytes. Type it as UTF-8.")
    if verb in READERS:  # the threads of OpenBLAS wait in a loop while numpy and scipy are imported
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        atexit.register(gc.freeze)  # no last collection of garbage: the memory is given back all the same
    from study import processes
    from study.config import plugins  # not for --help and --version: it builds every section of the configuration

    with processes.on_request():
        code: int = importlib.import_module(f"study.commands.{verb}").main(plugins.from_command_line(rest))
    return code


def _explained(problem: Exception) -> tuple[str, int]:
    """One line about an exception, and the exit status."""
    from study.config import plugins

    if isinstance(problem, OSError) and problem.filename is None and problem.errno in (errno.EPIPE, errno.ENOSPC):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes what is left when it ends
        line = f"standard output cannot be written ({problem.strerror})"
        return "" if problem.errno == errno.EPIPE else line, errors.UNWRITTEN
    if isinstance(problem, InputError):
        return str(problem), errors.BUSY if isinstance(problem, BusyError) else 2
    if isinstance(problem, ModuleNotFoundError) and problem.name in EXTRAS:
        return f"{problem.name}: not installed, and this verb needs it. " + INSTALL.format(EXTRAS[problem.name]), 2
    if isinstance(problem, LostError):
        return str(problem), errors.FAILED
    own_line = plugins.line_of(problem)
    if not own_line and (lack := errors.lacking(problem)):
        return lack, 2
    if isinstance(problem, OSError) and isinstance(problem.filename, str):
        return f"{problem.filename}: {problem.strerror}. Check the name and your rights, then repeat the command.", 2
    if errors.short_of_memory(problem):
        return "not enough memory. Use a smaller model, smaller batches or less data.", 2
    where = traceback.extract_tb(problem.__traceback__)[-1]
    reason = f"{type(problem).__name__}: {problem}".removesuffix(": ")[:300]
    if own_line:
        return f"{own_line}: {reason}. Correct this line; `study check` tests the file", 2
    if mechanism := plugins.running():
        return (
            f"{' or '.join(mechanism)}: expected a mechanism that fits, got {reason}. `study check` finds the mistake",
            2,
        )
    return (
        f"error of the program, in {Path(where.filename).name}:{where.lineno}: {reason}. Please report it with your "
        f"command; {TRACEBACK}=1 before the command prints the details to send",
        errors.BROKEN,
    )


def overview() -> str:
    """Help of the whole program: verbs in groups, then exit statuses."""
    width = max(map(len, VERBS))
    lines = ["usage: study VERB [OPTION ...]"]
    for title, verbs in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {verb:<{width}}  {line}" for verb, line in verbs.items())]
    statuses = ", ".join(f"{code} {meaning}" for code, meaning in errors.EXIT_STATUS.items())
    last = [
        f"exit status: {statuses}",
        "--allow-code, with any verb: run code that a sweep file, a run or a model brings",
        "`study VERB --help`: the options of a verb; `study --version`: the version",
    ]
    columns = shutil.get_terminal_size((100, 24)).columns
    return "\n".join([*lines, "", *(part for line in last for part in textwrap.wrap(line, columns))])


if __name__ == "__main__":  # trials import this module again under another name
    sys.exit(main())
