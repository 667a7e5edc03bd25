"""What the structured memory is sized by: fields that both families have, derived and refused alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from study.config.model import Recurrent, Transformer

ANNOTATIONS = "r, the number of annotation vectors of memory structured (derived: 8)."
ANNOTATION_WIDTH = "Hidden width of memory structured (derived: the width of the encoder's states)."
PENALTY = "λ of memory structured: λ‖AAᵀ − I‖² per sentence joins the loss; 0 is off (derived: 0)."


def derive_annotations(model: Recurrent | Transformer, width: int) -> None:
    """Fill in r, the hidden width and λ where the memory is structured, over states of `width`.

    Raises:
        ValueError: one of them is given, and the memory is another.
    """
    derived = {"annotations": 8, "annotation_width": width, "penalty": 0.0}
    for name, value in derived.items():
        given = getattr(model, name)
        if model.memory != "structured" and given is not None:
            raise ValueError(f"{name} belongs to memory structured, and memory is {model.memory}; leave it out")
        if model.memory == "structured" and given is None:
            object.__setattr__(model, name, value)
