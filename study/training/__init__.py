"""Training of one Experiment to one Record by `train`. Another kind of run, such as a pruning, gives it `Hooks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from study.training.run import Hooks, Run
    from study.training.run import run as train

__all__ = ["Hooks", "Run", "train"]


def __getattr__(name: str) -> Any:
    """Import PyTorch Lightning and the W&B client on first use."""
    if name in __all__:
        from study.training import run

        return getattr(run, "run" if name == "train" else name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
