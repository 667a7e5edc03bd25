"""Pruning: the heads that a trained model needs; importance, gates, orders of removal, and the removal itself."""
