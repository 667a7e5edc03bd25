"""The command line: `study VERB …`, also `python -m study VERB …`. Imports a verb only when it is asked for."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from study import __version__
from study.commands import output
from study.errors import InputError

VERBS = {
    "check": "a mechanism of your own: the standard tests on its file",
    "train": "one experiment: trains, tests, and writes its record",
    "explain": "one experiment before it runs: formulas, parameters, operations, equal sizes; --all: every mechanism",
    "sweep": "every experiment that a sweep file declares and that is not there yet",
    "show": "one run: its configuration, scores, learning curve and an attention map",
    "prune": "heads taken from a trained model, in an order of importance, and what that costs",
    "translate": "one sentence by a trained model, with its alignment",
    "align": "word alignments of sentence pairs by a trained model's attention",
    "softmax": "the two textbook curves behind 1/√d, as a figure",
    "report": "tables and figures from records, without torch",
    "claims": "the verdict on each claim, from records alone",
    "figures": "the study's figures from records, without torch",
    "publish": "the runs of a sweep, checked and promoted to results/",
    "verify": "everything in results/, checked again",
    "reproduce": "everything that is computed from results/, and whether git sees a change",
}
BROKEN = 70
"""Exit status of an error of the program itself."""
UNWRITTEN = 74
"""Of output that could not be written."""
TRACEBACK = "STUDY_TRACEBACK"
"""In the environment: print the traceback of whatever ends a command."""
LONGEST = 300
"""Characters of an unexpected error's own text."""
TRAINING = ("torch", "pytorch_lightning", "sentencepiece", "wandb")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb, `study.commands.<verb>.main`, and return the exit status.

    2: the user gave something wrong, 70: an error of the program, 74: standard output could not be written, 130:
    interrupted; else what the verb returns. A reader of the output that goes away ends nothing.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # A notebook's backend is no module of this environment. Nothing here opens a window.
    os.environ["MPLBACKEND"] = "agg"
    with output.lasting() as outlets:
        try:
            code = _guarded(arguments)
        except SystemExit as ending:  # argparse's --help, or a signal
            code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        sys.stdout.flush()
        for lost in (outlet.lost for outlet in outlets if outlet.descriptor == 1):
            if lost is not None and not isinstance(lost, BrokenPipeError):
                print(f"study: standard output cannot be written ({lost.strerror})", file=sys.stderr)
                code = code or UNWRITTEN
    return code


def _guarded(arguments: list[str]) -> int:
    """The status of a verb, each of its exceptions turned into one line."""
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return 130
    except Exception as problem:
        if os.environ.get(TRACEBACK):
            traceback.print_exception(problem)
        line, code = _explained(problem)
        print("study: " + " ".join(line.splitlines()), file=sys.stderr)
        return code


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    verb, *rest = arguments
    if verb == "--version":
        print(__version__)
        return 0
    if verb not in VERBS:
        raise InputError(f"there is no verb {verb!r}; the verbs are {', '.join(VERBS)}")
    for argument in rest:
        if "\0" in argument or not _is_text(argument):
            raise InputError(f"an argument is not UTF-8 or has a null byte: {argument[:40]!r}; type it as UTF-8 text")
    code: int = importlib.import_module(f"study.commands.{verb}").main(rest)
    return code


def _is_text(argument: str) -> bool:
    """Bytes that were no UTF-8 arrive as lone surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _explained(problem: Exception) -> tuple[str, int]:
    """One line about an exception, and the exit status."""
    if isinstance(problem, InputError):
        return str(problem), 2
    if isinstance(problem, ModuleNotFoundError) and problem.name in TRAINING:
        return f"this needs {problem.name}, which is not installed; `make sweep` and `make test` install it", 2
    if isinstance(problem, OSError) and isinstance(problem.filename, str):
        remedy = "make room" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else "check the name and your rights"
        return f"{problem.filename}: {problem.strerror}; {remedy}, then repeat the command", 2
    if isinstance(problem, MemoryError) or "alloc" in str(problem):  # torch has a RuntimeError for it
        return "not enough memory; use a smaller model, smaller batches or less data", 2
    where = traceback.extract_tb(problem.__traceback__)[-1]
    what = f"{type(problem).__name__}: {problem}".removesuffix(": ")[:LONGEST]
    return (
        f"error of the program, in {Path(where.filename).name}:{where.lineno}: {what}. Please report it with your "
        f"command; {TRACEBACK}=1 before the command prints the details to send",
        BROKEN,
    )


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {what}" for verb, what in VERBS.items())
    return f"usage: study VERB …\n\n{verbs}\n\n`study VERB --help` says what it takes."


if __name__ == "__main__":  # trials import this module again under another name
    sys.exit(main())
