"""Print the formulas and the costs of one experiment. Trains nothing.

Takes every flag of `study train`. Prints the formula of each attention site with the origin of its queries, keys and
values, and the parameters and FLOPs of every part.

FLOPs per target token are those of one teacher-forced forward pass of a sentence of mean length, divided by its target
tokens. Only matrix products and convolutions count, a multiplication and an addition as two; masked pairs of query and
slot count, because they are computed. Shared parameters count once.
"""

from collections.abc import Sequence

from study.commands import train
from study.commands.options import Parser, table_lines
from study.config import experiment_from, experiment_id


def main(argv: Sequence[str]) -> int:
    """Run the verb; return the exit status.

    Raises:
        InputError: a wrong flag or configuration, or a corpus that cannot be read.
    """
    parser = Parser("explain", __doc__, usage="study explain [--FIELD VALUE ...] [...]")
    train.add_experiment(parser)
    args = parser.parse_args(argv)
    experiment = experiment_from(*train.layers(args))
    from study.attention.formula import equations_of
    from study.models.cost import bare, cost_of
    from study.training.batches import sizes_for

    sizes = sizes_for(experiment.data, experiment.model)
    model = bare(experiment.model, sizes.vocabulary, sizes.lengths)
    print(experiment_id(experiment))
    origins = model.origins()
    last = {site: (layer, module) for site, layer, module in model.places()}
    for site, (layer, module) in last.items():
        print(f"\n{site}" + (f" ({layer + 1} layers)" if layer else ""))
        print(f"  x: {origins[site].query}", f"  m: {origins[site].memory}", sep="\n")
        print(*(f"     {line}" for line in equations_of(module, model.carries)), sep="\n")
        print(f"  c: {origins[site].use}")
    cost = cost_of(model, sizes)
    rows = [
        {"part": name, "parameters": part.parameters, "flops_per_token": round(part.flops / cost.target)}
        for name, part in cost.parts.items()
    ]
    rows.append({"part": "total", "parameters": cost.parameters, "flops_per_token": cost.flops_per_token})
    print("", *table_lines(rows), f"\nS = {sizes.source}, L = {sizes.target} tokens", sep="\n")
    return 0
