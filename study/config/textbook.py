"""Textbook arms: models of papers as overrides of an experiment, each with its source.

`preset=luong2015_dot` lies below everything else that is given and is gone before the identity is computed: the same
experiment written out field by field is the same run. Sizes are the user's (the papers' would not fit a small corpus),
unless they belong to the mechanism: the number of heads, of annotations, the window. No arm names a site, so that a
user's `model.attention.*` lies over it as well.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Arm(NamedTuple):
    """A named arm."""

    overrides: Mapping[str, Any]
    """Dotted fields of the experiment."""
    source: str
    differs: str = ""
    """Differences from the paper, which are held fixed here so that arms differ only in what they are named for."""


def _model(*parts: Mapping[str, Any], **attention: Any) -> dict[str, Any]:
    """Fields of the model, and of its attention at every site."""
    fields = {f"model.{name}": value for part in parts for name, value in part.items()}
    return fields | {f"model.attention.{name}": value for name, value in attention.items()}


RAW = {"maps": "raw", "values": "raw", "output": "raw", "heads": 1, "weights": "softmax", "scale": "none"}
BIDIRECTIONAL = {"family": "recurrent", "bidirectional": True}
BAHDANAU = {"decoder": "bahdanau", "cell": "gru", "memory": "states", "init": "final", "readout": "tanh"}
LEFT_TO_RIGHT = {"family": "recurrent", "bidirectional": False, "cell": "lstm", "memory": "states", "init": "direct"}
LUONG = {**LEFT_TO_RIGHT, "decoder": "luong", "input_feeding": True, "readout": "tanh"}
STRUCTURED = {"cell": "lstm", "memory": "structured", "annotations": 30, "penalty": 1.0, "init": "zero"}
VASWANI = {"family": "transformer", "positions": "sinusoidal", "mixing": "attention", "embeddings": "shared"}
PROJECTED = {"maps": "separate", "values": "projected", "output": "projected", "combine": "concat", "heads": 8}

GLOBAL, LOCAL = (f"Luong et al. 2015, {which} attention with input feeding" for which in ("global", "local"))
START = "every layer and cell of the decoder starts from the encoder's last state, there each from its own"


def _luong(score: str, source: str = GLOBAL, differs: str = START, **attention: Any) -> Arm:
    return Arm(_model(LUONG, **RAW, score=score, **attention), source, differs)


TEXTBOOK: dict[str, Arm] = {
    "bahdanau2015": Arm(
        _model(BIDIRECTIONAL, BAHDANAU, **RAW, score="additive"),
        "Bahdanau et al. 2015",
        "there the first state is tanh(W h←_1), encoder states twice as wide as the decoder's, the readout a maxout",
    ),
    "luong2015_dot": _luong("dot"),
    "luong2015_general": _luong("bilinear"),
    "luong2015_concat": _luong(
        "concat_luong",
        differs=f"the keys' block of W is the identity, as it was trained there, and the bias is new; {START}",
    ),
    "luong2015_location": _luong("location"),
    "luong2015_local_m": _luong(
        "bilinear",
        LOCAL,
        f"the centre stays within the sentence: min(t, S − 1), not t; {START}",
        reach="local_m",
        window=10,
    ),
    "luong2015_local_p": _luong(
        "bilinear",
        LOCAL,
        f"slots count from 0, so that the centre is (S − 1)·σ(…), not S·σ(…); {START}",
        reach="local_p",
        window=10,
    ),
    "vaswani2017": Arm(
        _model(VASWANI, **PROJECTED, weights="softmax", score="dot", scale="rsqrt"),
        "Vaswani et al. 2017",
        "normalisation comes before each block, there after it",
    ),
    "lin2017": Arm(
        _model(BIDIRECTIONAL, STRUCTURED, **RAW, score="dot"),
        "Lin et al. 2017",
        "there a classifier reads the annotations; here a decoder that starts from zero attends to them",
    ),
}
