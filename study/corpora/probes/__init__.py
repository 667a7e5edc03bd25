"""Probes: small seeded tasks whose relevant positions are known, so that attention is scored against truth.

Fields, generator and chance level of a probe stand in one class. Raise its `version` whenever the same section would
give other pairs.
"""
