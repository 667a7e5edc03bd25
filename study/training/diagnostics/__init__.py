"""Diagnostics of attention on a fixed batch, per site, layer and head. Taps and hooks leave the model unchanged."""

from study.training.diagnostics.diagnose import Diagnostics, diagnose
from study.training.diagnostics.gradients import gradients
from study.training.diagnostics.summary import for_record, in_history, short, site_means
from study.training.diagnostics.taps import Site, SiteObservation, look, observe, taps
from study.training.diagnostics.truth import Truth, truth

__all__ = [
    "Diagnostics",
    "Site",
    "SiteObservation",
    "Truth",
    "diagnose",
    "for_record",
    "gradients",
    "in_history",
    "look",
    "observe",
    "short",
    "site_means",
    "taps",
    "truth",
]
