"""Options that the chosen mechanism does not use, or that mean nothing together, each with the reason in one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from study.config.attention import Attention

WITHOUT_KEYS = ("location", "uniform", "fixed_random")
"""Scores that read no key."""
WITHOUT_QUERY = ("uniform", "fixed_random")
"""Scores that read no query either."""
TIED = ("tied", "tied_signed")
LOCAL = ("local_m", "local_p")
"""Reaches with a window."""
SINGLE = "structured with annotations 1"
"""As memories are told apart here."""
ONE_SLOT = ("final", "mean", "max", "empty", SINGLE)
"""Memories of one slot at most."""
NORMALISED = ("softmax", "sparsemax", "entmax15")
"""Weights that sum to 1, so that a slot without others has 1."""
SCORING = (
    *("score", "additive_width", "rank", "bilinear_init", "scale", "maps", "equal_start", "key_width"),
    *("weights", "logit_init"),
)
"""The fields that decide how slots share the weight."""
MIXING = ("values", "value_width", "combine", "output")
"""The fields that decide what becomes of the slots' states, all of them linear and without bias."""


def mechanism_refusals(site: Attention) -> Iterator[str]:
    """What is wrong with a site as it was given, whatever the widths it joins."""
    yield from _score(site)
    yield from _maps(site)
    yield from _scale(site)
    yield from _heads(site)
    yield from _reach(site)


def _score(site: Attention) -> Iterator[str]:
    if site.additive_width is not None and site.score == "concat_luong":
        yield "concat_luong leaves the keys as they are, so its additive_width is the key width; leave it out"
    elif site.additive_width is not None and site.score not in ("additive", "concat"):
        yield f"additive_width belongs to score additive or concat, and score is {site.score}; leave it out"
    if site.rank is not None and site.score != "low_rank":
        yield f"rank belongs to score low_rank, and score is {site.score}; leave it out"
    if site.bilinear_init != "xavier" and site.score != "bilinear":
        yield f"bilinear_init belongs to score bilinear, and score is {site.score}; leave it out"


def _maps(site: Attention) -> Iterator[str]:
    if site.score in WITHOUT_QUERY and site.maps != "raw" and "maps" in site.model_fields_set:
        yield f"score {site.score} reads neither query nor key, so maps {site.maps} means nothing; leave it out"
    if site.equal_start and site.maps != "separate":
        yield f"equal_start starts two maps alike, and maps {site.maps} has no two; use separate maps"
    if site.score in WITHOUT_KEYS:
        if site.key_width is not None:
            yield f"score {site.score} reads no key, so key_width means nothing; leave it out"
        if site.maps in TIED or site.equal_start:
            yield f"score {site.score} has no map of the keys to tie or to start alike; use separate or raw maps"
    elif site.key_width is not None and site.maps == "raw":
        yield "raw maps take the states as they are, so key_width follows; leave it out or use separate"
    if site.maps == "tied_signed" and site.score not in ("dot", "cosine", *WITHOUT_KEYS):
        yield f"score {site.score} has a matrix of its own that absorbs the signs of tied_signed; use dot or cosine"


def _scale(site: Attention) -> Iterator[str]:
    if site.score == "cosine" and site.scale in ("rsqrt", "inverse"):
        yield f"cosine has no size d to divide by, so scale {site.scale} means nothing; use none or learned"
    if site.score == "uniform" and site.weights in ("sparsemax", "entmax15"):
        yield f"score uniform gives every slot 1/S by {site.weights} as by softmax; use weights softmax"
    if site.score == "uniform" and site.weights == "identity_mean":
        yield "score uniform is 0, and so are weights identity_mean of it: nothing is read; use softmax or sigmoid"
    if site.score in WITHOUT_QUERY and site.scale not in (None, "none"):
        yield f"score {site.score} is fixed, so scale {site.scale} means nothing; leave it out"
    if site.logit_init == "matched":
        if site.score in WITHOUT_QUERY or (site.score == "cosine" and site.scale == "none"):
            yield f"logit_init matched sets a parameter, and {site.score} has none; use standard"
        elif site.maps == "raw" and site.score == "dot":
            yield "logit_init matched sets a parameter, and dot on raw maps has none; use separate maps"


def _heads(site: Attention) -> Iterator[str]:
    if site.value_width is not None and site.values == "raw":
        yield "raw values take the states as they are, so value_width follows; leave it out or project"
    if site.combine in ("sum_own", "sum_shared", "mean_shared") and site.output == "raw":
        yield f"combine {site.combine} multiplies by W_O, and output raw has none; use output projected"
    if site.combine in ("sum_shared", "mean_shared") and site.heads == 1:
        yield f"combine {site.combine} of one head is concat; use combine concat, or more heads"
    if site.combine == "sum_wide" and site.values == "raw":
        yield "combine sum_wide adds values of the model's width; use values projected"


def _reach(site: Attention) -> Iterator[str]:
    if site.window is not None and site.reach not in LOCAL:
        yield f"window belongs to reach local_m or local_p, and reach is {site.reach}; leave it out"
    if site.entropy_bonus is not None and site.reach != "hard":
        yield f"entropy_bonus belongs to reach hard, and reach is {site.reach}; leave it out"
    if site.reach == "local_p" and site.window == 0:
        yield "reach local_p has a Gaussian of σ = window/2, and a window of 0 leaves it no width; use 1 or more"
    if site.reach == "local_p" and site.score in WITHOUT_QUERY:
        yield f"reach local_p predicts a position from the query, and score {site.score} reads none; use local_m"
    # A window of 0 leaves one slot, whatever its score, and is allowed all the same: it is a mask, by which sweeps hold
    # a decoder to one place while another site varies.
    if site.reach == "local_m" and site.window == 0 and site.exclude_self:
        yield "exclude_self hides the only slot that a window of 0 holds; use a window of 1 or more"
    if site.reach == "hard" and site.weights != "softmax":
        yield f"reach hard draws from a softmax, and weights is {site.weights}; use weights softmax"


def site_refusals(site: Attention, name: str, memory: str) -> Iterator[str]:
    """What is wrong with an attention at the site of this name, over a memory of this kind at cross."""
    if name != "cross":
        if site.reach == "hard":
            yield "reach hard draws one slot of the source, and this is self-attention; set it at cross alone"
        return
    if site.exclude_self:
        yield "exclude_self hides a query's own slot, and cross-attention has none; set it at a self-attention site"
    if site.reach in LOCAL and memory != "states":
        yield f"reach {site.reach} needs source tokens in their order, and memory {memory} has none; use memory states"
    if site.reach == "hard" and memory not in ("states", "structured"):
        yield f"reach hard chooses among slots, and memory {memory} has no two; use memory states or structured"
    if memory in ONE_SLOT and site.weights == "identity_mean":
        yield f"identity_mean divides by the number of slots, and memory {memory} has no two; use identity or softmax"


def told_apart(memory: str, annotations: object) -> str:
    """The memory, or `SINGLE` where it is structured into one slot."""
    return SINGLE if memory == "structured" and str(annotations) == "1" else memory


def scores_matter(weights: str, memory: str) -> bool:
    """Whether cross-attention over this memory depends on its scores: a slot without others has all the weight."""
    return memory not in ONE_SLOT or (memory != "empty" and weights not in NORMALISED)


def idle(site: Attention, unset: Attention, memory: str) -> Iterator[str]:
    """What was set at cross and changes nothing, where scores do not matter. `unset` is the site without it."""
    slots = "no slot" if memory == "empty" else "one slot, which has all the weight whatever its score"
    for name in (*SCORING, "heads"):
        if (given := getattr(site, name)) != getattr(unset, name):
            yield f"{name} {given} changes nothing: memory {memory} has {slots}; leave it out, or use memory states"


def unread(site: Attention, base: dict[str, Any], memory: str) -> Iterator[str]:
    """What was set at cross and multiplies the zero context of memory empty. `base` has the family's own values."""
    for name in MIXING if memory == "empty" else ():
        if (given := getattr(site, name)) != base.get(name, type(site).model_fields[name].default):
            yield f"{name} {given} changes nothing: memory empty has no slot and its context is 0; leave it out"
