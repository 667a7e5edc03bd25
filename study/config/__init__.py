"""Experiment: a frozen, validated tree of fields, and the identity computed from it. Imports no torch."""

from study.config.attention import AttentionConfig
from study.config.counterpart import encoder_decoder
from study.config.experiment import Experiment
from study.config.identity import config_hash, experiment_id, recorded, scientific, trained
from study.config.model import DecoderOnly, Model, Recurrent, Transformer
from study.config.overrides import experiment_from
from study.config.textbook import TEXTBOOK
from study.corpora.catalogue import Data
from study.corpora.grammar import Grammar
from study.corpora.multi30k import Multi30k

__all__ = [
    "TEXTBOOK",
    "AttentionConfig",
    "Data",
    "DecoderOnly",
    "Experiment",
    "Grammar",
    "Model",
    "Multi30k",
    "Recurrent",
    "Transformer",
    "config_hash",
    "encoder_decoder",
    "experiment_from",
    "experiment_id",
    "recorded",
    "scientific",
    "trained",
]
