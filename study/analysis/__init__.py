"""Declared runs as one table, and the tests, tables and figures made from it; no torch, GPU or network."""
