"""Scores of translations: the table of all scores, and how each is computed from sentences."""
