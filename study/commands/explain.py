"""Print the formulas and the costs of one experiment. Trains nothing.

Takes every flag of `study train`. Prints the formula of each attention site with the origin of its queries, keys and
values, and the parameters and FLOPs of every part.

FLOPs per target token are those of one teacher-forced forward pass of one sentence, divided by its target tokens. Only
matrix products and convolutions count, a multiplication and an addition as two; masked pairs of query and slot count,
because they are computed. Shared parameters count once.
"""

from __future__ import annotations

from collections.abc import Sequence

from study.commands import train
from study.commands.options import Parser, positive, table_lines
from study.config import experiment_from, experiment_id
from study.errors import InputError


def main(argv: Sequence[str]) -> int:
    """Run the verb; return the exit status.

    Raises:
        InputError: a wrong flag or configuration, or a corpus that cannot be read.
    """
    parser = Parser(prog="study explain", description=__doc__, usage="study explain [--FIELD VALUE ...] [...]")
    for name in ("source", "target"):
        text = f"{name} tokens per sentence (default: the training mean)"
        parser.add_argument(f"--{name}", type=positive, metavar="N", help=text)
    train.add_experiment(parser)
    args = parser.parse_args(argv)
    experiment = experiment_from(*train.layers(args))
    from study.attention.formula import equations_of
    from study.models.cost import bare, cost_of
    from study.training.batches import sizes_for

    lengths = {name: getattr(args, name) for name in ("source", "target") if getattr(args, name) is not None}
    sizes = sizes_for(experiment.data, experiment.model)._replace(**lengths)
    model = bare(experiment.model, sizes.vocabulary, sizes.lengths)
    if model.longest is not None and max(sizes.source, sizes.target) > model.longest:
        raise InputError(f"--source, --target: expected at most {model.longest} tokens, as in the training data.")
    origins = model.origins()
    sites = {
        site: {"layers": layer + 1, **origins[site]._asdict(), "equations": equations_of(module, model.carries)}
        for site, layer, module in model.places()
    }
    found = cost_of(model, sizes)
    parts = {
        name: {"parameters": part.parameters, "flops_per_token": round(part.flops / found.target)}
        for name, part in found.parts.items()
    }
    total = {"parameters": found.parameters, "flops_per_token": found.flops_per_token}
    print(experiment_id(experiment))
    for site, facts in sites.items():
        print(f"\n{site}" + (f" ({facts['layers']} layers)" if facts["layers"] > 1 else ""))
        lines = (f"x: {facts['query']}", f"m: {facts['memory']}", *(f"   {line}" for line in facts["equations"]))
        print(*(f"  {line}" for line in lines), f"  c: {facts['use']}", sep="\n")
    costs = table_lines([{"part": name, **row} for name, row in (parts | {"total": total}).items()])
    print("", *costs, f"\nS = {sizes.source}, L = {sizes.target} tokens", sep="\n")
    return 0
