"""`study explain`: formulas and costs of a configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from study.commands import train
from study.commands.options import Parser, natural
from study.config import experiment_from, experiment_id
from study.errors import InputError

if TYPE_CHECKING:
    from study.models.cost import Cost, Part
    from study.models.translator import Translator

HELP = """\
Print the formulas and the costs of one experiment. Trains nothing.

Takes every flag of `study train`. Prints the formula of each attention site with the origin of its queries, keys and
values, and the parameters and FLOPs of every part.
"""
LONGEST = 2048
"""Upper limit of --source and --target; positional scores have parameters for every position."""

NOTES = """\
FLOPs per target token: one teacher-forced forward pass of encoder and decoder with batch size 1, S = {source} and
L = {target} ({means}, end-of-sentence included), divided by L. Only matrix products and
convolutions count; one multiplication and one addition are two operations. A backward pass costs about twice as much.
Elementwise: results of tanh, softmax, normalisation, gates, masks and sums. They are not part of the FLOPs.
Masked pairs of query and slot count, because they are computed. Not counted at all: embedding look-ups, sorting
(sparsemax, entmax), dropout, loss, optimiser, beam search.
Shared parameters count once. A tied output matrix counts for the decoder, which embeds with it."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; return the exit status.

    Raises:
        InputError: a wrong flag or configuration, or a corpus that cannot be read.
    """
    parser = Parser(prog="study explain", description=HELP, usage="study explain [--FIELD VALUE ...] [...]")
    parser.share("--json")
    add = parser.add_argument
    add("--all", action="store_true", help="print the tables of all mechanisms and presets")
    for name, text in (("source", "S, source"), ("target", "L, target")):
        add(f"--{name}", type=natural, metavar="N", help=f"{text} tokens per sentence (default: the training mean)")
    train.add_experiment(parser)
    args = parser.parse_args(argv)
    if args.all:
        _print_all()
        return 0
    lengths = {name: length for name in ("source", "target") if (length := getattr(args, name)) is not None}
    if not 1 <= min(lengths.values(), default=1) <= max(lengths.values(), default=1) <= LONGEST:
        raise InputError(f"--source, --target: expected from 1 to {LONGEST} tokens, got others.")
    experiment = experiment_from(*train.layers(args))
    from study.models.cost import bare, cost_of
    from study.training.batches import sizes_for

    sizes = sizes_for(experiment.data, experiment.model)._replace(**lengths)
    model = bare(experiment.model, sizes.vocabulary, sizes.lengths)
    for name, length in (("source", sizes.source), ("target", sizes.target)):
        if model.longest is not None and length > model.longest:
            raise InputError(
                f"--{name}: expected at most {model.longest} tokens, as in the training data, got {length}."
            )
    sites = _sites(model)
    found = cost_of(model, sizes)
    if args.json:
        facts = {"id": experiment_id(experiment), "source_tokens": sizes.source, "target_tokens": sizes.target}
        print(json.dumps(facts | {"sites": sites} | _costs(found), ensure_ascii=False, indent=1))
        return 0
    means = "as given" if lengths else "the training split's mean lengths"
    notes = NOTES.format(source=sizes.source, target=sizes.target, means=means)
    print("\n".join([experiment_id(experiment), *_formulas(sites), *_table(found), "", notes]))
    return 0


def _sites(model: Translator) -> dict[str, dict[str, Any]]:
    """Return the formulas of every site. Its layers are built alike."""
    from study.attention import Attention
    from study.attention.formula import equations_of

    origins, found = model.origins(), {}
    for site, layer, module in model.places():
        if isinstance(module, Attention) and not module.kept:
            continue
        facts = {**origins[site]._asdict(), "equations": equations_of(module, model.carries)}
        found[site] = {"layers": layer + 1} | facts
    return found


def _formulas(sites: dict[str, dict[str, Any]]) -> Iterator[str]:
    for site, facts in sites.items():
        yield f"\n{site}" + (f" ({facts['layers']} layers)" if facts["layers"] > 1 else "")
        yield f"  x: {facts['query']}"
        yield f"  m: {facts['memory']}"
        yield from (f"     {line}" for line in facts["equations"])
        yield f"  c: {facts['use']}"


def _costs(found: Cost) -> dict[str, Any]:
    return {
        "parts": {
            name: {
                "parameters": part.parameters,
                "flops_per_token": part.flops / found.target,
                "elementwise_per_token": part.elementwise / found.target,
            }
            for name, part in found.parts.items()
        },
        "parameters": found.parameters,
        "parameters_attention": found.parameters_attention,
        "flops_per_token": found.flops_per_token,
    }


def _table(found: Cost) -> Iterator[str]:
    from study.models.cost import Part

    yield f"\n{'':<16}{'parameters':>14}{'FLOPs / token':>16}{'elementwise / token':>22}"
    yield from (_line(name, part, found) for name, part in found.parts.items())
    yield _line("total", Part(*map(sum, zip(*found.parts.values(), strict=True))), found)
    yield _line("in attention", Part(*map(sum, zip(*(found.parts[s] for s in found.sites), strict=True))), found)


def _line(name: str, part: Part, found: Cost) -> str:
    flops, elementwise = part.flops / found.target, part.elementwise / found.target
    return f"{name:<16}{part.parameters:>14,}{flops:>16,.0f}{elementwise:>22,.0f}"


def _print_all() -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from study.models.catalogue import tables

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(width=140, highlight=False)
    for table in tables():
        grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for column in table.head:
            grid.add_column(column, overflow="fold")
        for row in table.rows:
            grid.add_row(*map(Text, row))
        console.print(Text(f"\n{table.title}", style="bold"))
        console.print(grid)
