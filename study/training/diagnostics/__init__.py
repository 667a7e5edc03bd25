"""Diagnostics of attention on a fixed batch, per site, layer and head. Taps and hooks leave the model unchanged."""

from study.training.diagnostics.diagnose import Diagnostics, brief, diagnose, for_record, in_history, short, site_means
from study.training.diagnostics.gradients import gradients
from study.training.diagnostics.taps import Site, SiteObservation, Truth, look, observe, taps, truth

__all__ = [
    "Diagnostics",
    "Site",
    "SiteObservation",
    "Truth",
    "brief",
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
