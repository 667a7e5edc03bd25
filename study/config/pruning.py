"""The pruning section: which heads of a trained model go, in which order, and what is asked of what is left."""

from typing import Literal, Self

from pydantic import Field, model_validator

from study.config.mechanisms import COMBINE
from study.config.model import DecoderOnly, Recurrent, Transformer
from study.schema import Frozen, Size

TRAINING = ("retrain", "train_on")
"""Questions that train the model without its heads."""
CUTTING = ("curve", *TRAINING)
"""Questions that remove heads in an order."""
DEFAULTS = {"order": "gradient", "fraction": 0.5, "draws": 10, "penalty": 0.01, "gate_steps": 300}
"""Field ↦ its default, where it is used."""


class Pruning(Frozen):
    """Removal of heads from the trained model that is the same experiment without this section."""

    question: Literal["curve", "retrain", "train_on", "each_head", "best_head"] = Field(
        "curve",
        description="curve: remove heads in an order, a tenth at a time, and score every model; `fraction` says which "
        "one is kept. retrain: train the model without these heads from the same initial values. train_on: train "
        "the model for another training.steps, in the first half of which these heads go, one after another at even "
        "distances. each_head: mask every head alone. best_head: keep one head per layer, chosen on validation.",
    )
    order: (
        Literal["gradient", "gradient_normalised", "weight_norm", "leave_one_out", "greedy", "gates", "random"] | None
    ) = Field(
        None,
        description="Order of removal (questions curve, retrain and train_on). gradient: smallest E|o·∂L/∂o| on "
        "training data first. gradient_normalised: the same, over its l2 norm in the layer. weight_norm: smallest "
        "weights first. leave_one_out: the head whose removal alone hurts validation least first. greedy: repeatedly "
        "remove the head whose removal hurts validation least. gates: smallest L0 gate first. random: by seed "
        f"(derived: {DEFAULTS['order']}).",
    )
    site: Literal["all", "encoder_self", "decoder_self", "cross", "joint"] = Field(
        "all", description="Site whose heads are removed, or all sites together."
    )
    fraction: float | None = Field(
        None,
        gt=0,
        le=1,
        description=f"Share of heads to remove, with an order (derived: {DEFAULTS['fraction']}).",
    )
    draws: Size | None = Field(
        None, description=f"Random orders to average; the first makes the pruned model (derived: {DEFAULTS['draws']})."
    )
    penalty: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description=f"λ of order gates: nats per token that each head left adds (derived: {DEFAULTS['penalty']}).",
    )
    gate_steps: Size | None = Field(
        None,
        description=f"Updates of the gates, the model's weights fixed (derived: {DEFAULTS['gate_steps']}).",
    )

    base_steps: Size | None = Field(
        None,
        description="Updates of the run to prune, where they are not training.steps (questions retrain and train_on).",
    )

    @model_validator(mode="after")
    def _only_what_is_used(self) -> Self:
        cuts, order = self.question in CUTTING, self.order or DEFAULTS["order"]
        gates, curve = cuts and order == "gates", self.question == "curve"
        for name, owner, use in (
            ("order", "question curve, retrain or train_on", cuts),
            ("fraction", "question curve, retrain or train_on", cuts),
            ("draws", "a curve of order random", curve and order == "random"),
            ("penalty", "order gates", gates),
            ("gate_steps", "order gates", gates),
            ("base_steps", "question retrain or train_on", self.question in TRAINING),
        ):
            given = getattr(self, name)
            if given is not None and not use:
                got = f"{self.question} of order {self.order}" if self.order else self.question
                raise ValueError(f"{name}: expected {owner}, got {got}. Remove it.")
            if given is None and use:
                object.__setattr__(self, name, DEFAULTS.get(name))
        return self

    def refusal(self, model: Recurrent | Transformer | DecoderOnly) -> str | None:
        """Return why a model has nothing to prune at the site; None if it has heads there."""
        sites = model.attention.present
        if self.site != "all" and self.site not in sites:
            return f"site: expected {' or '.join(('all', *sites))}, got {self.site}."
        layers = 1 if isinstance(model, Recurrent) else model.layers
        chosen = [site for name, site in sites.items() if self.site in ("all", name) and not site.whole]
        if not chosen:
            return f"site: expected sites with heads to prune, got {self.site}, which classes of a user's own compute."
        mixed = next((site.combine for site in chosen if COMBINE[site.combine].mixes_logits), None)
        if mixed and self.question in CUTTING:
            return f"question: {mixed} mixes the logits of all heads, so none can be removed. Use each_head."
        heads = layers * sum(site.heads for site in chosen)
        if heads < 2:
            return "site: expected two heads or more to prune, got one. Set model.attention.heads."
        if self.question in TRAINING and self.fraction and self.fraction * heads < 0.5:
            return f"fraction: expected a share that removes a head, got {self.fraction:g} of {heads} heads."
        return None
