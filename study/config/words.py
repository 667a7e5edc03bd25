"""Fields and their values in words, for tables, figures and names of runs."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from pydantic import ValidationError

from study.config.experiment import Experiment
from study.config.mechanisms import AXES
from study.config.overrides import Fields, flat
from study.corpora.catalogue import KINDS

VALUES: dict[tuple[str, str], str] = {
    (axis, name): row.label for axis, rows in AXES.items() for name, row in rows.items() if row.label
} | {
    ("bidirectional", "true"): "encoder in both directions",
    ("bidirectional", "false"): "encoder from left to right",
    ("equal_start", "true"): "equal start",
    ("equal_start", "false"): "unequal start",
    ("exclude_self", "true"): "self masked",
    ("exclude_self", "false"): "self visible",
    ("floor", "blind"): "a guess without looking",
    ("floor", "confused"): "by the largest weights of symmetric scores",
    ("groups", "1"): "multi-query (1 group)",
    ("input_feeding", "true"): "input feeding",
    ("input_feeding", "false"): "no input feeding",
    ("order", "gradient_normalised"): "gradient, by layer",
    ("order", "leave_one_out"): "leave one out",
    ("order", "random"): "random orders",
    ("site", "all"): "all sites",
    ("site", "cross"): "cross-attention",
    ("site", "decoder_self"): "decoder self-attention",
    ("site", "encoder_self"): "encoder self-attention",
    ("site", "joint"): "joint attention",
    ("source_mask", "causal"): "causal source mask",
    ("source_mask", "full"): "full source mask",
    ("family", "decoder_only"): "decoder-only",
    ("question", "best_head"): "one head a layer",
    ("question", "curve"): "heads removed step by step",
    ("question", "each_head"): "each head by itself",
    ("question", "retrain"): "retrained with the mask",
    ("question", "train_on"): "trained on while heads go",
    ("structure", "cycle3"): "rings of three",
    ("structure", "one_way"): "one-way links",
}
"""(field, value) ↦ its words, where the value does not speak for itself."""
PLAIN = (*AXES, "family", "name", "order", "site", "structure")
"""Fields whose values speak for themselves."""
NOUNS = {"data.seed": "corpus draw", "dose": "share in rings", "window": "window of half-width"}
COUNTED = {"annotations": "annotation", "draws": "draw", "heads": "head", "layers": "layer", "targets": "target"}
"""Fields that count things ↦ one of them."""

MAIN = ("data.name", "model.family")
"""Fields on which the defaults of others depend."""
SITES = "model.attention."


def arm_words(label: str) -> str:
    """Return the label of an arm or facet in words: `scale=none key_width=512` ↦ `unscaled, key width 512`."""
    return ", ".join(label_words(label))


def setting(name: str, value: str) -> str:
    """Return one field and its value in words.

    Args:
        name: the field, also with its section: `heads`, `encoder_self.score`, `model.memory`.
        value: as labels have it.
    """
    *sections, field = name.split(".")
    where = next((f" in {VALUES['site', section]}" for section in sections if ("site", section) in VALUES), "")
    if (field, value) in VALUES:
        return VALUES[field, value] + where
    if not value:
        return field.replace("_", " ")
    if field in PLAIN:
        return value.partition("@")[0].rpartition(":")[2].replace("_", " ") + where
    if field in COUNTED:
        return f"{value} {COUNTED[field]}{'' if value == '1' else 's'}{where}"
    return f"{NOUNS.get(name, NOUNS.get(field, field.replace('_', ' ')))} {value}{where}"


def label_words(label: str) -> tuple[str, ...]:
    """Return each setting of the label of an arm or facet in words."""
    tokens = (token.partition("=") for token in label.split())
    return tuple(_once([setting(name, value) for name, _, value in tokens]))


def _once(texts: Sequence[str]) -> list[str]:
    """Return each text once; `16 annotations` and `additive width 16` stand for `annotations` and `additive` too."""
    longer = {word: text for text in texts if " " in text for word in text.split()}
    return list(dict.fromkeys(longer.get(text, text) for text in texts))


def defaults(config: Fields) -> dict[str, Any]:
    """Return the default of each dotted field, given the corpus and the family of a configuration.

    Fields that a corpus cannot do without, such as the languages of `files`, have no default. The result is empty for a
    corpus or a family that this program does not have.

    Args:
        config: the fields of an experiment, nested, as a record has them.
    """
    main = dict(flat(config))
    return _defaults(str(main.get("data.name")), str(main.get("model.family") or ""))


@cache
def _defaults(name: str, family: str) -> dict[str, Any]:
    given: dict[str, Any] = {"model": {"family": family}} if family else {}
    with suppress(ValidationError, KeyError):
        data = KINDS[name].example()
        if data.shortest_target < 4:  # BLEU, by which runs are selected, counts four words
            given["training"] = {"select": "last"}
        every = flat(Experiment.model_validate(given | {"data": data}).model_dump(mode="json"))
        return {name: value for name, value in every if name.removeprefix("data.") not in data.model_fields_set}
    return {}


def changed(config: Fields) -> list[str]:
    """Return the dotted names of the fields that differ from the defaults of their corpus and family."""
    usual = defaults(config)
    return [name for name, value in flat(config) if usual.get(name) != value]


def in_words(names: Iterable[str], config: Fields) -> list[str]:
    """Return fields of a configuration in words. One that has the same value in every site is named once."""
    tree = dict(flat(config))

    def text(name: str) -> str:
        """A field in words, without its site where all sites of the model have one value."""
        section, _, field = name.rpartition(".")
        beside = {str(value) for other, value in tree.items() if SITES in other and other.endswith(f".{field}")}
        place = f"{section.rpartition('.')[2]}." if SITES in name and len(beside) > 1 else ""
        return setting(place + field, str(tree[name]).lower() if isinstance(tree[name], bool) else str(tree[name]))

    return _once([text(name) for name in names])


def differing(configs: Sequence[Fields]) -> list[str]:
    """Return for each configuration the fields in which it differs from the others, in words.

    Left out are fields that not every configuration has, or that have the default of their family everywhere. The seed
    is named if nothing else differs.
    """
    trees = [dict(flat(config)) for config in configs]
    unusual = {*MAIN, *(name for config in configs for name in changed(config))}
    names = [name for name in trees[0] if all(tree.get(name) is not None for tree in trees)]
    names = [name for name in names if len({str(tree[name]) for tree in trees}) > 1 and not name.startswith("trainer.")]
    chosen = [name for name in names if name in unusual]
    chosen = [name for name in chosen if name != "seed"] or chosen
    return [", ".join(in_words(chosen, config)) for config in configs]
