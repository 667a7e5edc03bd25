"""`study translate CHECKPOINT "Ein Mann …"`: one sentence by a trained model, and where it looked."""

from __future__ import annotations

import math
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from study import files
from study.commands.options import RUNS, Parser, positive, runs_folder
from study.commands.show import RUN, found_folder
from study.errors import InputError

if TYPE_CHECKING:
    from study.config import Experiment
    from study.models import Translator
    from study.training.vocabulary import Vocabulary

DESCRIPTION = """\
Translate one sentence with a trained model and draw the alignment as a heat map. The map shows cross-attention,
averaged over heads: one column per source token, one row per target token.
"""


LONGEST = 2000
"""Tokens of a sentence: time grows with the square of their number."""


class Trained(NamedTuple):
    """Content of a checkpoint."""

    experiment: Experiment
    vocabulary: Vocabulary
    model: Translator


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such checkpoint, an empty sentence, no such layer, or a file that cannot be written.
    """
    if any(not _readable(word) for word in argv):
        raise InputError("SENTENCE: expected UTF-8, got other bytes. Save or type it as UTF-8.")
    args = _parser().parse_args(argv)
    sentence = " ".join(args.sentence.split())
    if not sentence:
        raise InputError('SENTENCE: expected words, got an empty text. Give one in quotes, such as "Ein Mann schläft."')
    from study.config import experiment_id

    trained = load(checkpoint(args.run, runs_folder(args.runs)))
    strange = dict.fromkeys(unknown(trained.vocabulary, sentence).values())
    if strange:
        print(f"study: not in the vocabulary of this model: {', '.join(strange)}", file=sys.stderr)
    text, attention = translate(trained, sentence, args.beam, args.layer)
    print(text)
    if attention is None and not any(site == "cross" for site, _, _ in trained.model.sites()):
        print("alignment  none: this model has no head of cross-attention left")
    elif attention is None:
        memory = trained.experiment.model.memory
        print(f"alignment  none: memory {memory} has no source tokens")
    else:
        absent = draw(attention, args.png, experiment_id(trained.experiment))
        print(f"alignment  {args.png}" + (f"   (the font lacks {absent}; boxes are drawn instead)" if absent else ""))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study translate", description=DESCRIPTION)
    add = parser.add_argument
    add("run", metavar="RUN", help=RUN)
    add("sentence", metavar="SENTENCE", help="a source sentence, in quotes")
    add(
        "--png",
        type=Path,
        metavar="FILE",
        default=Path("alignment.png"),
        help="file of the heat map (default: alignment.png)",
    )
    add("--beam", type=positive, metavar="K", help="beam width (default: as in the test of the run)")
    add("--layer", type=int, metavar="N", help="layer of cross-attention, from 0 (default: the last)")
    add("--runs", metavar="DIR", help=RUNS)
    return parser


def _readable(argument: str) -> bool:
    """Bytes that were no UTF-8 arrive as lone surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def checkpoint(run: str, runs: Path) -> Path:
    """Return the path that RUN names: a path as it is, else the folder of the run with this identity.

    Raises:
        InputError: no run, or several runs, have this name.
    """
    return Path(run) if Path(run).exists() or os.sep in run else found_folder(run, runs)


def load(checkpoint: Path) -> Trained:
    """Load a trained model on the CPU, in evaluation mode.

    Raises:
        InputError: there is no such file, or it is not a checkpoint that this version can read.
    """
    import torch

    from study.attention import Lengths
    from study.config import experiment_from, plugins
    from study.config.experiment import threads_for
    from study.models import build
    from study.pruning.surgery import cut_to
    from study.training.checkpoint import load as load_checked
    from study.training.vocabulary import restore

    path = checkpoint / "model.pt" if checkpoint.is_dir() else checkpoint
    if not path.is_file():
        raise InputError(f"{path}: no such model. A run writes its model.pt when it has finished.")
    try:
        whole = load_checked(path)
        plugins.remember(whole.get("mechanisms", ()))
        plugins.check_resolved(whole["config"], str(path))
        experiment = experiment_from(whole["config"])
        torch.set_num_threads(threads_for(experiment.model.width) or torch.get_num_threads())
        vocabulary = restore(experiment.data.tokens, whole["vocabulary"])
        lengths = Lengths(**whole["lengths"]) if "lengths" in whole else None
        model = build(experiment.model, len(vocabulary), experiment.seed, lengths)
        cut_to(model, whole.get("kept", {}))
        model.load_state_dict(whole["state"])
    except plugins.NotTrustedError:
        raise
    except InputError as problem:
        raise InputError(f"{path}: expected a model of this version, got another ({problem})") from None
    except Exception:  # What a file that is something else can raise has no end.
        raise InputError(f"{path}: expected a model of this program. Name a run, or its model.pt.") from None
    return Trained(experiment, vocabulary, model.eval())


def unknown(vocabulary: Vocabulary, sentence: str) -> dict[int, str]:
    """The tokens that the model sees as unknown: position ↦ the word as it is written."""
    from study.corpora import words
    from study.models.translator import UNK

    written = [word for word, _, _ in words(sentence)]
    (ids,) = vocabulary.encode([sentence])
    return {i: written[word] for i, word in enumerate(vocabulary.words(sentence)) if ids[i] == UNK}


def translate(
    trained: Trained, sentence: str, beam: int | None, layer: int | None
) -> tuple[str, dict[str, Any] | None]:
    """The translation, and its attention map if the memory holds the source tokens.

    Raises:
        InputError: the model has no such layer of cross-attention.
    """
    from study.corpora import Pair
    from study.models.search import beam_search
    from study.training.alignment import attention_map
    from study.training.batches import Example, collate

    experiment, vocabulary, model = trained
    layers = [at for site, at, _ in model.sites() if site == "cross"]
    if layer is not None and layer not in layers:
        raise InputError(f"--layer: expected one of {', '.join(map(str, layers))}, got {layer}.")
    (source,) = vocabulary.encode([sentence])
    if len(source) > LONGEST:
        raise InputError(f"sentence: expected at most {LONGEST} tokens, got {len(source)}. Split it.")
    if model.longest is not None and len(source) >= model.longest:
        raise InputError(f"SENTENCE: expected at most {model.longest - 1} tokens, got {len(source)}. Shorten it.")
    batch = collate([Example(source, [], Pair(sentence, ""))])
    (ids,) = beam_search(
        model,
        batch.source,
        batch.mask,
        beam=beam or experiment.decoding.beam,
        length_penalty=experiment.decoding.length_penalty,
    )
    text = vocabulary.decode(ids)
    attention = attention_map(model, [Example(source, ids, Pair(sentence, text))], vocabulary, layer)
    if attention is not None:
        attention["source"] = _labels(vocabulary, sentence, attention["source"])
    return text, attention


def _labels(vocabulary: Vocabulary, sentence: str, tokens: list[str]) -> list[str]:
    """The source tokens, unknown words as they are written and a question mark."""
    strange = unknown(vocabulary, sentence)
    return [f"{strange[i]}?" if i in strange else token for i, token in enumerate(tokens)]


def title(attention: dict[str, Any], model: str) -> str:
    """Title of the map: the model, both sentences, and the entropy of the weights, 0 (one slot) to 1 (uniform)."""
    slots = max(len(attention["source"]), 2)
    rows = [-sum(w * math.log(w) for w in row if w > 0) / math.log(slots) for row in attention["weights"]]
    entropy = sum(rows) / max(len(rows), 1)
    texts = attention.get("text") or {}
    return "\n".join([f"{model}: entropy {entropy:.2f}", *(text for text in texts.values() if text)])


def draw(attention: dict[str, Any], path: Path, model: str) -> str:
    """Write one attention map as a PNG, as large as its tokens need, and return the characters that the font lacks.

    Raises:
        InputError: the file cannot be written.
    """
    from study.analysis.figures import style
    from study.analysis.figures.run import draw_map

    width = max(style.COLUMN, 0.22 * len(attention["source"]) + 1.7)
    height = max(2.4, 0.18 * len(attention["target"]) + 1.5)
    with style.styled(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure, axes = style.subplots(figsize=(width, height))
        draw_map(axes, attention)
        head = title(attention, model)
        head = "\n".join(part for line in head.splitlines() for part in textwrap.wrap(line, int(16 * width)) or [""])
        figure.suptitle(head, fontsize=8, x=0.01, ha="left")
        axes.tick_params(axis="both", labelsize=7.5)  # the figure grows with its tokens, so they need not shrink
        try:
            dpi = min(style.DPI, 8000 / max(figure.get_size_inches()))  # a long sentence is drawn smaller
            with files.replacing(path) as temporary:
                figure.savefig(temporary, metadata={"Software": None}, format="png", dpi=dpi)
        except OSError as problem:
            raise InputError(f"{path}: cannot be written ({problem.strerror}). Name another file with --png.") from None
    codes = (re.match(r"Glyph (\d+) ", str(warning.message)) for warning in told)
    return " ".join(dict.fromkeys(chr(int(code[1])) for code in codes if code))
