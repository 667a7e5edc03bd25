"""The command line: `study VERB …`, also `python -m study VERB …`. Imports a verb only when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from study import __version__
from study.errors import InputError

VERBS = {
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
TRAINING = ("torch", "pytorch_lightning", "sentencepiece", "wandb")


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch to `study.commands.<verb>.main`; the exit status (2: wrong input, 130: interrupted)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    verb, *rest = arguments
    if verb == "--version":
        print(__version__)
        return 0
    try:
        if verb not in VERBS:
            raise InputError(f"there is no verb {verb!r}; the verbs are {', '.join(VERBS)}")
        code: int = importlib.import_module(f"study.commands.{verb}").main(rest)
    except InputError as problem:
        print(f"study: {problem}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as problem:
        if problem.name not in TRAINING:
            raise
        print(f"study: {verb} needs {problem.name}; `make sweep` and `make test` install it", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {what}" for verb, what in VERBS.items())
    return f"usage: study VERB …\n\n{verbs}\n\n`study VERB --help` says what it takes."


if __name__ == "__main__":  # trials import this module again under another name
    sys.exit(main())
