"""The mechanism: everything between (query, memory) and context. Knows torch and the configuration, nothing else."""

from study.attention.combine import Combine, Output
from study.attention.maps import Maps, Values
from study.attention.mixing import Mixing
from study.attention.multihead import MultiHeadAttention
from study.attention.positions import Positions
from study.attention.reach import Reach
from study.attention.scores import Scale, Score
from study.attention.site import Site, Whole
from study.attention.view import AttentionCall, Lengths, Memory, Terms, View
from study.attention.weighting import Weighting

__all__ = [
    "AttentionCall",
    "Combine",
    "Lengths",
    "Maps",
    "Memory",
    "Mixing",
    "MultiHeadAttention",
    "Output",
    "Positions",
    "Reach",
    "Scale",
    "Score",
    "Site",
    "Terms",
    "Values",
    "View",
    "Weighting",
    "Whole",
]
