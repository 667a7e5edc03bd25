"""`study explain`: formulas and costs of a configuration, and sizes with as many parameters as its baseline."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field
from pydantic_settings import CliToggleFlag

from study.commands import flags, train
from study.commands.options import WHOLE
from study.config import Experiment, experiment_from, experiment_id
from study.errors import InputError
from study.sweep.grid import expand

if TYPE_CHECKING:
    from study.models.cost import Cost, Part, Sizes

HELP = """Print the formulas and the costs of one experiment. Trains nothing.

Takes every flag of `study train`. Prints the formula of each attention site with the origin of its queries, keys and
values, the parameters and FLOPs of every part, and the widths at which the model has as many parameters as its
baseline.
"""
EXTRA: dict[str, Any] = {
    **{name: train.EXTRA[name] for name in ("preset", "config", "overrides_json")},
    "as_json": (
        CliToggleFlag[bool],
        Field(False, alias="json", description="Print JSON: sites, costs of every part, widths."),
    ),
    "all": (CliToggleFlag[bool], Field(False, description="Print the tables of all mechanisms and presets.")),
    "baseline": (
        str | None,
        Field(
            None,
            description="Arm with the number of parameters to match, as fields in one text: score=dot heads=4, or "
            "preset=NAME (default: the default arm of the family, with the same width, layers and embeddings).",
        ),
    ),
    "source": (int | None, Field(None, description="S, source tokens per sentence (default: the training mean).")),
    "target": (int | None, Field(None, description="L, target tokens per sentence (default: the training mean).")),
}
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
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong flag or configuration, or a corpus that cannot be read.
    """
    given = flags.parse(argv, HELP, EXTRA, "explain")
    if str(given.pop("all", False)).lower() == "true":
        _print_all(given)
        return 0
    as_json = str(given.pop("json", False)).lower() == "true"
    baseline = given.pop("baseline", None)
    lengths: dict[str, Any] = {n: _positive(n, given.pop(n)) for n in ("source", "target") if n in given}
    layers = train.layers(given)
    experiment = experiment_from(*layers)
    against = experiment_from(expand({"arm": baseline})) if baseline is not None else None
    from study.training.batches import sizes_for

    means = "the training split's mean lengths" if not lengths else "as given"
    sizes = _within(experiment, sizes_for(experiment.data, experiment.model)._replace(**lengths))
    if as_json:
        print(json.dumps(_facts(experiment, layers, sizes, against), ensure_ascii=False, indent=1))
        return 0
    print(experiment_id(experiment))
    for lines in (
        _sites(experiment, sizes),
        _costs(experiment, sizes),
        ["", NOTES.format(source=sizes.source, target=sizes.target, means=means)],
        _matching(experiment, layers, sizes, against),
    ):
        print("\n".join(lines), flush=True)
    return 0


def _positive(name: str, text: str) -> int:
    if not WHOLE.fullmatch(str(text)) or not 1 <= int(text) <= LONGEST:
        raise InputError(f"--{name}: expected a number of tokens from 1 to {LONGEST}, got {text!r}.")
    return int(text)


def _within(experiment: Experiment, sizes: Sizes) -> Sizes:
    from study.models.cost import bare

    longest = bare(experiment.model, sizes.vocabulary, sizes.lengths).longest
    for name, length in (("source", sizes.source), ("target", sizes.target)):
        if longest is not None and length > longest:
            raise InputError(f"--{name}: expected at most {longest} tokens, as in the training data, got {length}.")
    return sizes


def _sites(experiment: Experiment, sizes: Sizes) -> Iterator[str]:
    """Yield every site once, whatever the number of layers: they are built alike."""
    from study.attention.formula import equations
    from study.models.cost import bare

    model = bare(experiment.model, sizes.vocabulary, sizes.lengths)
    layers = [site for site, _, _ in model.sites()]
    origins = model.origins()
    for site, attention in {site: attention for site, _, attention in model.sites()}.items():
        count = layers.count(site)
        yield f"\n{site}{f' ({count} layers)' if count > 1 else ''}"
        yield f"  x: {origins[site].query}"
        yield f"  m: {origins[site].memory}"
        yield from (f"     {line}" for line in equations(attention, model.carries))
        yield f"  c: {origins[site].use}"


def _facts(
    experiment: Experiment, layers: list[dict[str, Any]], sizes: Sizes, against: Experiment | None
) -> dict[str, Any]:
    """All numbers and formulas of the text."""
    from study.attention.formula import equations
    from study.models.cost import bare, base_arm, cost, matches, parameters_of

    model, found = bare(experiment.model, sizes.vocabulary, sizes.lengths), cost(experiment.model, sizes)
    origins = model.origins()
    sites = {site: attention for site, _, attention in model.sites()}
    target = parameters_of(against.model if against else base_arm(experiment.model), sizes)
    near = matches(functools.partial(experiment_from, *layers), sizes, target) if target != found.parameters else []
    return {
        "id": experiment_id(experiment),
        "source_tokens": sizes.source,
        "target_tokens": sizes.target,
        "sites": {
            site: {**origins[site]._asdict(), "equations": list(equations(attention, model.carries))}
            for site, attention in sites.items()
        },
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
        "baseline_parameters": target,
        "matches": [{"field": m.field, "value": m.value, "parameters": m.parameters} for m in near],
    }


def _costs(experiment: Experiment, sizes: Sizes) -> Iterator[str]:
    from study.models.cost import Part, cost

    found = cost(experiment.model, sizes)
    yield f"\n{'':<16}{'parameters':>14}{'FLOPs / token':>16}{'elementwise / token':>22}"
    yield from (_line(name, part, found) for name, part in found.parts.items())
    yield _line("total", Part(*map(sum, zip(*found.parts.values(), strict=True))), found)
    yield _line("in attention", Part(*map(sum, zip(*(found.parts[s] for s in found.sites), strict=True))), found)


def _line(name: str, part: Part, found: Cost) -> str:
    flops, elementwise = part.flops / found.target, part.elementwise / found.target
    return f"{name:<16}{part.parameters:>14,}{flops:>16,.0f}{elementwise:>22,.0f}"


def _matching(
    experiment: Experiment, layers: list[dict[str, Any]], sizes: Sizes, against: Experiment | None
) -> Iterator[str]:
    from study.models.cost import base_arm, matches, parameters_of

    baseline = against.model if against else base_arm(experiment.model)
    target, mine = parameters_of(baseline, sizes), parameters_of(experiment.model, sizes)
    name = "as given" if against else f"the default arm of {baseline.family}, width {baseline.width}"
    yield f"\nbaseline ({name}): {target:,} parameters; this: {mine:,} ({_difference(mine, target)})"
    if mine == target:
        yield "  nothing to match"
        return
    found = matches(functools.partial(experiment_from, *layers), sizes, target)
    for match in found:
        flag = f"--{match.field} {match.value}"
        yield f"  {flag:<42}{match.parameters:>14,} ({_difference(match.parameters, target)})"
    if not found:
        yield "  no width of this arm is free to match it"


def _difference(mine: int, target: int) -> str:
    return f"{mine - target:+,}, {(mine - target) / target:+.2%}"


def _print_all(given: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from study.models.catalogue import tables

    if given:
        raise InputError(f"--all: expected alone, got --{min(given)} too. Remove one.")
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
