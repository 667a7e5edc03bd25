"""Arms that are no arms of a sweep: one number a seed, made of several runs, or of several scores of one run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from study.analysis.inference import Arm


def band(label: str, rates: Sequence[tuple[float, Arm]], within: float) -> tuple[Arm, int]:
    """The width of the band of each seed as an arm, and in how many seeds the best rate is at the grid's edge.

    Args:
        label: the arm's name.
        rates: learning rates in rising order, each with its losses by seed; a seed without one has diverged there.
        within: how far above the best loss is still good.
    """
    seeds = sorted({seed for _, arm in rates for seed in arm.values})
    widths, edges = {}, 0
    for seed in seeds:
        losses = [arm.values.get(seed, math.inf) for _, arm in rates]
        best = min(range(len(losses)), key=losses.__getitem__)
        low = high = best
        while low > 0 and losses[low - 1] <= losses[best] + within:
            low -= 1
        while high < len(losses) - 1 and losses[high + 1] <= losses[best] + within:
            high += 1
        widths[seed] = math.log2(rates[high][0] / rates[low][0])
        edges += best in (0, len(losses) - 1)
    holes = sum(arm.holes for _, arm in rates)
    everywhere = max(len(arm.values) + arm.diverged for _, arm in rates) - len(seeds)
    return Arm(label, widths, diverged=0 if holes else everywhere, holes=holes), edges


def above(label: str, of: Arm, base: Sequence[Arm] | float) -> Arm:
    """Each run's value less that of a base: the mean of other scores of the same run, or a number."""
    if isinstance(base, float):
        values = {seed: value - base for seed, value in of.values.items()}
    elif all(arm.values for arm in base):
        values = {seed: v - sum(arm.values[seed] for arm in base) / len(base) for seed, v in of.values.items()}
    else:
        values = {}
    return Arm(label, values, of.diverged, of.holes, of.valid_bleu)
