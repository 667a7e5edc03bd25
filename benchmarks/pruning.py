"""Latency, throughput and memory of a transformer whose heads are removed against the whole one, by batch size.

Untrained weights: the time of a translation does not depend on what they are, only on how many. Every alternative
encodes the same sentences and decodes the same number of tokens greedily, in turn.

    python benchmarks/pruning.py               # prints the table
    python benchmarks/pruning.py --write       # and writes it: benchmarks/pruning.json, benchmarks/README.md
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator

import torch
from measure import Table, Work, machine, markdown, peak_memory, relative_times
from page import write

from study.config import experiment_from
from study.models import Translator, build
from study.models.translator import BOS
from study.pruning.order import gone, shuffled
from study.pruning.surgery import heads_of, masked, remove
from study.training.machine import keep_memory

SIZE = {"model.family": "transformer", "model.width": 256, "model.layers": 3, "model.attention.heads": 8}
VOCABULARY, SOURCE, TARGET = 4000, 16, 16
BATCHES = (1, 8, 64)
SHARES = (0.5, 0.9, 1.0)
MEGABYTE = 2**20


def pruning(rounds: int, batches: tuple[int, ...] = BATCHES) -> Table:
    """The table."""
    rows = [[batch, *row] for batch in batches for row in compared(batch, rounds)]
    return Table(
        "pruning",
        "Heads removed, by batch size",
        f"A transformer of width 256, 3 + 3 layers and 8 heads a site, {SOURCE} source tokens, {TARGET} tokens decoded "
        "greedily; heads go in a random order. *masked*: all are computed, half are multiplied by 0.",
        ("B", "heads", "parameters, M", "ms", "time ×", "sentences/s", "peak MB", "memory ×"),
        rows,
    )


def compared(batch: int, rounds: int) -> Iterator[list[str | float | None]]:
    """One row an alternative."""
    whole = build(experiment_from(SIZE).model, VOCABULARY, 1).eval()
    order = shuffled(heads_of(whole), 1, 0)
    models = {"all": whole}
    for share in SHARES:
        models[f"{share:.0%} removed"] = smaller = copy.deepcopy(whole)
        remove(smaller, gone(order, share))
    source = torch.randint(4, VOCABULARY, (batch, SOURCE))
    works: dict[str, Work] = {name: translating(model, source) for name, model in models.items()}

    def half_masked() -> None:
        with masked(whole, gone(order, 0.5)):
            works["all"]()

    works["50% masked"] = half_masked
    times = relative_times(works, rounds)
    peaks = {name: peak_memory(work) / MEGABYTE for name, work in works.items()}
    for name, (milliseconds, ratio) in times.items():
        size = sum(p.numel() for p in models.get(name, whole).parameters()) / 1e6
        speed = 1000 * batch / milliseconds
        yield [name, size, milliseconds, ratio, speed, peaks[name], peaks[name] / peaks["all"]]


def translating(model: Translator, source: torch.Tensor) -> Work:
    """Encode, and decode a fixed number of tokens."""

    @torch.no_grad()
    def work() -> None:
        encoded = model.encode(source, torch.ones_like(source, dtype=torch.bool))
        token, state = torch.full((len(source),), BOS), encoded.state
        for _ in range(TARGET):
            logits, state = model.step(token, state, encoded)
            token = logits.argmax(-1)

    return work


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", action="store_true", help="write pruning.json and README.md beside this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    keep_memory()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    table = pruning(arguments.rounds)
    print(f"\n{markdown(table)}")
    if arguments.write:
        write("pruning", {**machine(), "tables": [table._asdict()]})


if __name__ == "__main__":
    main()
