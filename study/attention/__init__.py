"""The mechanism: everything between (query, memory) and context. Knows torch and the configuration, nothing else."""

from study.attention.multihead import Attention
from study.attention.view import Lengths, Memory, Seen, Terms, View

__all__ = ["Attention", "Lengths", "Memory", "Seen", "Terms", "View"]
