"""Random legal models: any mixture of the configuration's own values, without those that it refuses beside the rest."""

from study.config import AttentionConfig, DecoderOnly, Recurrent, Transformer, experiment_from
from study.config.mechanisms import AXES, REACH, choices
from study.errors import InputError

FAMILIES = {"recurrent": Recurrent, "transformer": Transformer, "decoder_only": DecoderOnly}
SIZES = {
    "width": (6, 12, 14),
    "encoder_width": (10, 12),
    "layers": (1, 2),
    "feedforward": (0, 7),
    "convolution_width": (1, 2, 5),
    "annotations": (1, 3, 7),
    "annotation_width": (5,),
    "penalty": (0.0, 0.3),
    "dropout": (0.0, 0.3),
    "heads": (2, 4),
    "groups": (1, 2),
    "cap": (3.0,),
    "key_width": (5,),
    "value_width": (4,),
    "additive_width": (3,),
    "rank": (1, 2),
    "window": (0, 1, 3),
    "entropy_bonus": (0.0, 0.1),
}
"""Values to draw where a field is a number; every other field says itself what it takes."""

PLACES = {"score": "attention.score", "reach": "attention.cross.reach", "memory": "memory", "mixing": "mixing"}
OWNERS = [{PLACES[axis]: value} for axis in PLACES for value, row in AXES[axis].items() if row.options]
"""The values that have options."""

COMPANIONS = [
    {f"model.{name}": value for name, value in fields.items()}
    for fields in (
        {},
        {"attention.maps": "separate"},
        {"attention.maps": "separate", "attention.scale": "none"},
        {"attention.values": "projected", "attention.output": "projected"},
        {"attention.maps": "separate", "attention.values": "projected", "attention.output": "projected"},
        {"attention.score": "elu_kernel", "attention.maps": "separate"},
        {"attention.logits": "cap"},
        *OWNERS,
        {"attention.score": "additive", "attention.maps": "separate"},
        {"attention.reach": REACH.taking("window")[0]},
        {"attention.heads": 1},
        {"attention.heads": 1, "memory": "structured"},
    )
]
"""Fields that give another field its meaning."""


WANTED = 6
"""Missing fields that a model tries first."""


def values(name, field):
    """The values that a field may be set to."""
    return choices(field) or ((False, True) if field.annotation is bool else SIZES[name])


def axes(family):
    """Every dotted field of a family but `factors`, those of attention at all sites and at each, with its values."""
    fields = FAMILIES[family].model_fields
    sites = fields["attention"].default_factory
    own = {
        f"model.{name}": values(name, field)
        for name, field in fields.items()
        if name not in ("family", "attention", "factors")
    }
    at = ["", *(f"{site}." for site in sites.model_fields)]
    attention = {name: values(name, field) for name, field in AttentionConfig.model_fields.items()}
    return own | {f"model.attention.{site}{name}": some for site in at for name, some in attention.items()}


def is_legal(fields):
    try:
        experiment_from(fields)
    except InputError:
        return False
    return True


def legal(drawn, base):
    """The base with each drawn field that it takes, in the order drawn; once more those that were refused at first."""
    kept, left = dict(base), drawn
    for _ in range(2):
        refused = []
        for name, value in left:
            if is_legal({**kept, name: value}):
                kept[name] = value
            else:
                refused.append((name, value))
        left = refused
    return kept


def drawn_from(random, missing):
    """About half of the family's fields and of those of all sites, and some of single sites, what is missing first."""
    family = random.choice(sorted(FAMILIES))
    base = {"model.family": family, "model.width": 14, "model.attention.heads": random.choice((1, 2))}
    every = [(name, value) for name, some in axes(family).items() for value in some]
    random.shuffle(every)
    wanted = [item for item in every if said(*item) in missing][:WANTED]
    chosen = {name: value for name, value in every if random.random() < (0.5 if name.count(".") < 3 else 0.12)}
    if random.random() < 0.5:
        base |= random.choice([companion for companion in COMPANIONS if is_legal(base | companion)])
    return legal([*wanted, *chosen.items()], base)


def said(name, value):
    """A field, wherever it is set, and its value by name; of numbers only that there is one."""
    return name.rpartition(".")[2], "a number" if name.rpartition(".")[2] in SIZES else value


def everything():
    """All that can be said of the families."""
    return {said(name, value) for family in FAMILIES for name, some in axes(family).items() for value in some}
