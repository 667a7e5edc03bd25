"""Engines: where the runs of a sweep are made."""
