"""The pruning section: which heads of a trained model go, in which order, and what is asked of what is left."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from study.config.model import Recurrent, Transformer
from study.schema import Frozen, Size

CUTTING = ("curve", "retrain")
"""The questions that remove heads in an order."""


class Pruning(Frozen):
    """Heads of the trained model that is the same experiment without this section. Left out: nothing is pruned."""

    question: Literal["curve", "retrain", "each_head", "best_head"] = Field(
        "curve",
        description="curve: scores with the heads of an order removed in steps of a tenth, and of the model without a "
        "`fraction` of them. retrain: that model from the same initial values, trained anew. each_head: every head "
        "masked alone. best_head: every layer with one head alone, chosen on validation.",
    )
    order: (
        Literal["gradient", "gradient_normalised", "weight_norm", "leave_one_out", "greedy", "gates", "random"] | None
    ) = Field(
        None,
        description="Which heads go first, of curve and retrain. gradient: the smallest E|o·∂L/∂o| on training data; "
        "gradient_normalised: the same ÷ its l2 norm in the layer. weight_norm: the smallest weights. leave_one_out: "
        "those whose absence alone costs least on validation. greedy: one after the other what then costs least on "
        "validation. gates: the smallest L0 gate. random: as the seed has it (derived: gradient).",
    )
    site: Literal["all", "encoder_self", "decoder_self", "cross"] = Field(
        "all", description="Whose heads: one site's, or those of all sites together."
    )
    fraction: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Share of these heads that the pruned model lacks, of curve and retrain (derived: 0.5)."
    )
    draws: Size | None = Field(
        None, description="Orders that a random curve is the mean of; the first is the model's (derived: 10)."
    )
    penalty: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="λ of gates: nats per token that a head must be worth; a sum over heads (derived: 0.01)."
    )
    gate_steps: Size | None = Field(None, description="Updates of gates, the model's weights fixed (derived: 300).")

    @model_validator(mode="after")
    def _only_what_is_used(self) -> Self:
        cuts = self.question in CUTTING
        if self.order is not None and not cuts:
            raise ValueError(f"order belongs to question curve or retrain, not to {self.question}; leave it out")
        order = self.order or "gradient"
        self._derive("order", order, cuts, "question curve or retrain")
        self._derive("fraction", 0.5, cuts, "question curve or retrain")
        self._derive("draws", 10, order == "random" and self.question == "curve", "a curve of order random")
        self._derive("penalty", 0.01, cuts and order == "gates", "order gates")
        self._derive("gate_steps", 300, cuts and order == "gates", "order gates")
        return self

    def _derive(self, name: str, value: Any, used: bool, owner: str) -> None:
        given = getattr(self, name)
        if given is not None and not used:
            raise ValueError(f"{name} belongs to {owner}; leave it out")
        if given is None and used:
            object.__setattr__(self, name, value)

    def refusal(self, model: Recurrent | Transformer) -> str | None:
        """Why a model has nothing to prune at the site; None where it has."""
        sites = {name: site for name in type(model.attention).model_fields if (site := getattr(model.attention, name))}
        if self.site != "all" and self.site not in sites:
            return f"there is no {self.site} in this model; its sites are {', '.join(sites)}"
        layers = 1 if isinstance(model, Recurrent) else model.layers
        heads = layers * sum(site.heads for name, site in sites.items() if self.site in ("all", name))
        if heads < 2:
            return "one head is all there is; give the model more with model.attention.heads"
        return None
