"""Sweep files, the experiments that they declare, and searches. Knows no torch and no W&B client."""
