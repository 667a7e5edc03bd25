"""`study translate CHECKPOINT "Ein Mann …"`: one sentence by a trained model, and where it looked."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.commands.options import RUNS, Parser, add_site, named_as_flags, picture, positive, runs_folder, write_picture
from study.errors import InputError
from study.run_names import RUN, find, model_of

if TYPE_CHECKING:
    from study.training.translation import Trained

DESCRIPTION = """\
Translate one sentence with a trained model and draw its attention as a heat map: one column per source token, one row
per target token. The map shows cross-attention, the mean over heads, unless --site, --layer or --head choose another.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such checkpoint, an empty sentence, no such layer, or a file that cannot be written.
    """
    if any(not _readable(word) for word in argv):
        raise InputError("SENTENCE: expected UTF-8, got other bytes. Save or type it as UTF-8.")
    args = _parser().parse_args(argv)
    from study.config import experiment_id

    trained = load(args.run, runs_folder(args.runs))
    from study.training.translation import translate

    with named_as_flags("site", "layer", "head"):
        found = translate(trained, args.sentence, args.beam, args.layer, args.site, args.head)
    warn_of_unknown(trained, args.sentence, "this model")
    attention = found.attention
    print(found.text)
    if attention is None and not any(site == args.site for site, _, _ in trained.model.sites()):
        print("alignment  none: this model has no head of cross-attention left")
    elif attention is None:
        memory = trained.experiment.model.memory
        print(f"alignment  none: memory {memory} has no source tokens")
    else:
        if absent := draw(attention, args.plot, experiment_id(trained.experiment)):
            print(f"study: the font lacks {absent}; boxes are drawn instead", file=sys.stderr)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study translate", description=DESCRIPTION)
    add = parser.add_argument
    add("run", metavar="RUN", help=RUN)
    add("sentence", metavar="SENTENCE", help="a source sentence, in quotes")
    help_ = "file of the heat map, a .png or .svg (default: alignment.png)"
    add("--plot", type=picture, metavar="FILE", default=Path("alignment.png"), help=help_)
    parser.alias("--png", "--plot", type=picture)
    add("--beam", type=positive, metavar="K", help="beam width (default: as in the test of the run)")
    add_site(parser)
    add("--runs", metavar="DIR", help=RUNS)
    return parser


def _readable(argument: str) -> bool:
    """Bytes that were no UTF-8 arrive as lone surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def load(run: str, runs: Path) -> Trained:
    """Return the trained model of a run; RUN may also be the file of a model.

    Raises:
        InputError: no run, or several runs, have this name, or the run has no model.
    """
    from study.training import translation

    if (path := Path(run)).exists() and path.name != "record.json":
        return translation.load(path)
    store, identity = find(run, runs)
    return translation.read(model_of(store, identity), identity)


def warn_of_unknown(trained: Trained, sentence: str, name: str) -> None:
    """Print the words of a sentence that a model does not know, in one line of stderr."""
    from study.training.translation import unknown

    if strange := dict.fromkeys(unknown(trained.vocabulary, sentence).values()):
        print(f"study: not in the vocabulary of {name}: {', '.join(strange)}", file=sys.stderr)


def draw(attention: dict[str, Any], path: Path, model: str) -> str:
    """Write one attention map as a picture and return the characters that the font lacks.

    Raises:
        InputError: the file cannot be written.
    """
    from study.analysis.figures.run import draw_translation

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        write_picture(draw_translation(attention, model), path)
    codes = (re.match(r"Glyph (\d+) ", str(warning.message)) for warning in told)
    return " ".join(dict.fromkeys(chr(int(code[1])) for code in codes if code))
