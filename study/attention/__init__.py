"""The mechanism: everything between (query, memory) and context. Knows torch and the configuration, nothing else."""

from study.attention.multihead import Attention, Memory, Seen, Terms, View

__all__ = ["Attention", "Memory", "Seen", "Terms", "View"]
