"""A reproducible ablation study of attention in neural machine translation.

The training half (torch, Lightning, W&B) ends by writing one JSON record per run; the report half
(numpy, scipy, pandas, seaborn, sacrebleu) starts from those records. Importing this package
imports neither: every name imports what it needs when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from study.api import Results, Run, Translation, compare, experiment, load, results, runs, softmax, train, verdicts
    from study.errors import InputError
    from study.models.layer import Attention
    from study.training.task import DataModule, Task

__version__ = "0.4.0.dev0"
__all__ = [
    "Attention",
    "DataModule",
    "InputError",
    "Results",
    "Run",
    "Task",
    "Translation",
    "compare",
    "experiment",
    "load",
    "results",
    "runs",
    "softmax",
    "train",
    "verdicts",
]
PLACES = dict.fromkeys(__all__, "study.api") | {
    "Attention": "study.models.layer",
    "DataModule": "study.training.task",
    "InputError": "study.errors",
    "Task": "study.training.task",
}
"""Name ↦ the module that has it."""


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    member = globals()[name] = getattr(importlib.import_module(PLACES[name]), name)
    return member


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
