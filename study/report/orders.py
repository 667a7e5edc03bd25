"""How stable an order of heads is: over seeds, and against what greedy removal finds in the same model.

A head's place is 0 for the first to go. Heads of a layer are exchangeable between seeds, so seeds are compared by the
mean place of each layer's heads; within layers, by heads of equal index, there is nothing to find: the control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean

from study import records
from study.records import Record
from study.report import pruned, wording
from study.report.estimates import deviation
from study.report.published import Manifest, Results
from study.report.tables import Block, Column, Row, Table

NOTE = (
    "Spearman's ρ between orders of removal; 1: the same order. As greedy: with the greedy order of the same model, "
    "mean ± sd over models. Layers, over seeds: of the mean place of each layer's heads, the mean of all pairs of "
    "seeds. Within layers: so of what a head's place differs from that mean by, heads of equal index compared, which "
    "have nothing in common, so that it is about 0. Free: least and most heads that go for free, over models. Of "
    "random orders the first draw."
)
GREEDY = "greedy"

Places = dict[str, float]
"""Head, or layer ↦ its place in an order."""


def stability(results: Results) -> Table:
    """One block a sweep and site that was pruned in several orders, one row an order.

    Raises:
        InputError: a sweep file or a record cannot be used.
    """
    columns = [
        Column("order", "order", "left"),
        Column("n", "n"),
        Column("greedy", "as greedy"),
        Column("layers", "layers, over seeds"),
        Column("heads", "within layers"),
        Column("free", "free, %"),
    ]
    return Table(
        "Stability of orders", columns, [b for m in results.manifests.values() for b in _blocks(results, m)], [NOTE]
    )


def _blocks(results: Results, manifest: Manifest) -> list[Block]:
    spec = results.spec(manifest)
    sites: dict[str, dict[str, dict[int, Record]]] = {}
    for cell in spec.runnable:
        asked, path = cell.experiment and cell.experiment.pruning, results.record_path(str(cell.id))
        if asked and asked.question == "curve" and asked.order and path.is_file():
            record = records.read(path)
            if pruned.order(record):
                sites.setdefault(asked.site, {}).setdefault(asked.order, {})[record.seed] = record
    blocks = []
    for site, orders in sites.items():
        greedy = {seed: _heads(record) for seed, record in orders.get(GREEDY, {}).items()}
        rows = [_row(spec.name, site, order, runs, greedy) for order, runs in orders.items()]
        if len(rows) > 1:
            blocks.append(Block(f"{spec.name}: site={site}", rows))
    return blocks


def _row(sweep: str, site: str, order: str, runs: Mapping[int, Record], greedy: Mapping[int, Places]) -> Row:
    places = {seed: _heads(record) for seed, record in runs.items()}
    alike = [rho(places[seed], greedy[seed]) for seed in places if seed in greedy and order != GREEDY]
    layers, heads = (_over_seeds([make(places[seed]) for seed in sorted(places)]) for make in (_layers, _within))
    free = [s.value for record in runs.values() for s in record.scores if s.metric == "free" and s.value is not None]
    cells = {
        "order": order,
        "n": str(len(runs)),
        "greedy": wording.mean_sd(fmean(alike), deviation(alike), 2) if alike else wording.NOTHING,
        "layers": wording.number(layers, 2),
        "heads": wording.number(heads, 2),
        "free": f"{min(free):.0f} to {max(free):.0f}" if free else wording.NOTHING,
    }
    numbers = {"sweep": sweep, "site": site, "order": order, "n": len(runs)}
    found = {"as_greedy": fmean(alike) if alike else None, "layers_over_seeds": layers, "within_layers": heads}
    return Row(cells, numbers=numbers | found)


def _heads(record: Record) -> Places:
    return {head: float(place) for place, head in enumerate(pruned.order(record))}


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
    """Mean ρ over all pairs; None with one run, or fewer than three places to rank."""
    if len(runs) < 2 or len(runs[0]) < 3:
        return None
    return fmean(rho(a, b) for a, b in combinations(runs, 2))


def rho(a: Places, b: Places) -> float:
    """Spearman's rank correlation of two orders of the same."""
    from scipy.stats import spearmanr

    names = sorted(a)
    return float(spearmanr([a[name] for name in names], [b[name] for name in names]).statistic)
