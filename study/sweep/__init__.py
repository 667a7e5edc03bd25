"""Sweep files, the experiments that they declare, and the engine that runs them. Knows no torch and no W&B client."""
