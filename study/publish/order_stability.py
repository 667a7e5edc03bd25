"""Stability of an order of removal: between seeds, and against greedy removal in the same model.

A head's place is 0 for the first to go. Heads of a layer are exchangeable between seeds, so seeds are compared by the
mean place of each layer's heads; within layers, by heads of equal index, there is nothing to find: the control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean

from study.analysis import labels
from study.analysis.inference import deviation
from study.analysis.measures import head_order
from study.analysis.runs import Runs
from study.analysis.tables import Block, Column, Row, Table
from study.config import config_hash
from study.config.pruning import Pruning
from study.publish.results import Results
from study.records import Record
from study.sweep.spec import Spec

NOTE = (
    "ρ: Spearman's rank correlation of orders of removal; 1 is the same order. With greedy: with the greedy order "
    "of the same model, mean ± sd over models. Of layers: of the mean place of each layer's heads, averaged over "
    "all pairs of seeds. Within layers: of the difference between a head's place and that mean. Heads of equal "
    "index have nothing in common over seeds, so it is about 0. Heads free: the least and the most over models. "
    "Random orders: ρ of the first draw, and the mean of the free heads over draws."
)
GREEDY = "greedy"
OF_PRUNINGS = tuple(Pruning.model_fields)

Places = dict[str, float]
"""Head, or layer ↦ its place in an order."""


def stability_table(results: Results, runs: Runs) -> Table:
    """One block a sweep and site that was pruned in several orders, one row an order.

    Raises:
        InputError: a sweep file or a record cannot be used.
    """
    columns = [
        Column("order", "order", "left"),
        Column("n", "runs"),
        Column("greedy", "ρ with greedy"),
        Column("layers", "ρ of layers, over seeds"),
        Column("heads", "ρ within layers, over seeds"),
        Column("free", "heads free, %"),
    ]
    blocks = [block for m in results.manifests.values() for block in _blocks(results.spec(m), runs)]
    return Table("Stability of orders", columns, blocks, [NOTE])


def _blocks(spec: Spec, runs: Runs) -> list[Block]:
    """One for each site and pruned model: orders of removal by seed, None where the run is not there."""
    sites: dict[tuple[str, str], dict[str, dict[int, Record | None]]] = {}
    heads: dict[tuple[str, str], str] = {}
    for run in runs.of(spec):
        cell, record = run.cell, run.record
        if not (cell.experiment and (asked := cell.experiment.pruning)) or asked.question != "curve" or not asked.order:
            continue
        key = str(asked.site), config_hash(cell.experiment.model_copy(update={"pruning": None}))
        rest = (word for word in spec.label(cell).split() if word.partition("=")[0] not in ("seed", *OF_PRUNINGS))
        heads.setdefault(key, " ".join([f"site={asked.site}", *rest]))
        by_seed = sites.setdefault(key, {}).setdefault(asked.order, {})
        by_seed[cell.experiment.seed] = record if record and head_order(record) else None
    blocks = []
    for key, orders in sites.items():
        greedy = {seed: _heads(record) for seed, record in orders.get(GREEDY, {}).items() if record}
        there = {order: runs for order, runs in orders.items() if any(runs.values())}
        if len(there) > 1:
            rows = [_row(spec.name, heads[key], order, runs, greedy) for order, runs in there.items()]
            blocks.append(Block(f"{spec.name}: {heads[key]}", rows))
    return blocks


def _row(sweep: str, head: str, order: str, runs: Mapping[int, Record | None], greedy: Mapping[int, Places]) -> Row:
    made = {seed: record for seed, record in runs.items() if record}
    places = {seed: _heads(record) for seed, record in made.items()}
    paired = [rho(places[seed], greedy[seed]) for seed in places if seed in greedy and order != GREEDY]
    alike = [value for value in paired if value is not None]
    layers, heads = (_over_seeds([make(places[seed]) for seed in sorted(places)]) for make in (_layers, _within))
    free = [s.value for record in made.values() for s in record.scores if s.metric == "free" and s.value is not None]
    cells = {
        "order": order,
        "n": str(len(made)) if len(made) == len(runs) else f"{len(made)} of {len(runs)}",
        "greedy": labels.mean_sd(fmean(alike), deviation(alike), 2) if alike else labels.NOTHING,
        "layers": labels.number(layers, 2),
        "heads": labels.number(heads, 2),
        "free": f"{min(free):.0f} to {max(free):.0f}" if free else labels.NOTHING,
    }
    numbers = {"sweep": sweep, "block": head, "order": order, "n": len(made), "declared": len(runs)}
    found = {"as_greedy": fmean(alike) if alike else None, "layers_over_seeds": layers, "within_layers": heads}
    return Row(cells, numbers=numbers | found, runs=[record.id for record in made.values()])


def _heads(record: Record) -> Places:
    return {head: float(place) for place, head in enumerate(head_order(record))}


def _layers(places: Places) -> Places:
    """`site layer head` ↦ place, to `site layer` ↦ the mean."""
    found: dict[str, list[float]] = {}
    for head, place in places.items():
        found.setdefault(head.rpartition(" ")[0], []).append(place)
    return {layer: fmean(among) for layer, among in found.items()}


def _within(places: Places) -> Places:
    """Head ↦ how far its place is from the mean of its layer."""
    layers = _layers(places)
    return {head: place - layers[head.rpartition(" ")[0]] for head, place in places.items()}


def _over_seeds(runs: Sequence[Places]) -> float | None:
    """Mean ρ over all pairs; None with one run, fewer than three places to rank, or places that do not vary."""
    if len(runs) < 2 or len(runs[0]) < 3:
        return None
    found = [value for a, b in combinations(runs, 2) if (value := rho(a, b)) is not None]
    return fmean(found) if found else None


def rho(a: Places, b: Places) -> float | None:
    """Spearman's rank correlation of two orders of the same; None where one does not vary."""
    from scipy.stats import spearmanr

    if len(set(a.values())) < 2 or len(set(b.values())) < 2:
        return None
    return float(spearmanr([a[name] for name in a], [b[name] for name in a]).statistic)
