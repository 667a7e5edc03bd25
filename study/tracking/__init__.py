"""W&B: the place to look at runs. The record stays the place to compute from. Needs no torch."""
