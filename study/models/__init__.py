"""The two families of translators, what joins encoder and decoder, initial values and search."""

from study.models.build import build, initialise, match_logits
from study.models.translator import Encoded, Output, Translator

__all__ = ["Encoded", "Output", "Translator", "build", "initialise", "match_logits"]
