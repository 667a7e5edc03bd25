"""Cost of heads and reach, for results/tables/costs.md: every alternative in each of several processes.

    python benchmarks/cost.py                 # prints what was measured
    python benchmarks/cost.py --write         # and writes it: results/benchmarks/cost.json, from a clean commit

A process is to a time what a seed is to a score: layout of memory, and the neighbours it has, differ between processes
and not between the rounds of one. Within a process the alternatives of a group take turns, in an order drawn anew for
every round, so that what one leaves behind is not always met by the same one.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import torch
from attention import MEGABYTE, TOKENS, site
from measure import peak_memory, relative_times

from study.analysis.costs import FILE, Costs, Measured, TimedSite
from study.config.mechanisms import REACH
from study.errors import InputError
from study.files import write
from study.publish.checkout import Checkout
from study.training.machine import keep_memory, provenance

TARGET = Path(__file__).parents[1] / "results" / "benchmarks" / FILE
PROCESSES, ROUNDS = 10, 11
LENGTHS = (16, 64, 256)
HEADS = {64: (1, 4, 16), 512: (1, 8)}
SCORES = ("dot", "additive")

Found = dict[TimedSite, tuple[float, float]]
"""Milliseconds and megabytes."""


def groups() -> Iterator[list[TimedSite]]:
    """The alternatives that take turns: those of one length and width."""
    for slots, width in product(LENGTHS, HEADS):
        some = [("dot", heads, "global", True) for heads in HEADS[width]]
        if width == 64:
            some += [(score, 4, reach, True) for score, reach in product(SCORES, REACH)]
            some += [(score, 4, reach, False) for score, reach in product(SCORES, ("global", "hard"))]
        yield [
            TimedSite(width=width, score=score, heads=heads, reach=reach, slots=slots, training=training)
            for score, heads, reach, training in dict.fromkeys(some)
        ]


def measure(process: int, rounds: int) -> Found:
    """All alternatives, here. The number of the process is the seed of their order."""
    found: Found = {}
    order = random.Random(process)
    for group in groups():
        works = {str(place): site(**one.model_dump()) for place, one in enumerate(group)}
        times = relative_times(works, rounds, order)
        for place, one in enumerate(group):
            found[one] = (times[str(place)][0], peak_memory(works[str(place)]) / MEGABYTE)
    return found


def child(process: int, threads: int, rounds: int) -> None:
    """One process of several: prints what it measured."""
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    keep_memory()
    print(json.dumps([[*both] for both in measure(process, rounds).values()]))


def all_processes(threads: int, processes: int, rounds: int) -> Costs:
    """One after another."""
    made = provenance(torch.device("cpu"), 1, "float32")  # before: the tree may change meanwhile
    sites = [one for group in groups() for one in group]
    command = [sys.executable, __file__, "--threads", str(threads), "--rounds", str(rounds), "--child"]
    runs, began = [], time.monotonic()
    for number in range(processes):
        done = subprocess.run([*command, str(number + 1)], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"cost.py: process {number + 1} ended with status {done.returncode}, so nothing is written")
        runs.append(json.loads(done.stdout))
        left = (time.monotonic() - began) / (number + 1) * (processes - number - 1)
        print(f"{number + 1} of {processes} processes done, time left {left:.0f} s", file=sys.stderr, flush=True)
    return Costs(
        provenance=made,
        threads=threads,
        rounds=rounds,
        tokens=TOKENS,
        measured=[
            Measured(
                site=one,
                milliseconds=[round(run[place][0], 4) for run in runs],
                megabytes=round(max(run[place][1] for run in runs), 3),
            )
            for place, one in enumerate(sites)
        ],
    )


def _unfit(processes: int, rounds: int) -> str | None:
    """Why this would be no measurement to publish."""
    if processes < PROCESSES or rounds < ROUNDS:
        return f"{PROCESSES} processes of {ROUNDS} rounds are the least that is published"
    try:
        changed = Checkout(TARGET.parents[2]).changed(["study", "sweeps", "requirements.lock", "benchmarks"])
    except InputError as missing:
        return str(missing)
    return f"not as committed: {', '.join(line[3:] for line in changed)}; commit first" if changed else None


def main() -> None:
    """Measure, print, and write if that was asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", action="store_true", help=f"write {TARGET.relative_to(TARGET.parents[2])}")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.threads, arguments.rounds)
        return
    if arguments.write and (problem := _unfit(arguments.processes, arguments.rounds)):
        parser.error(f"--write: {problem}")
    costs = all_processes(arguments.threads, arguments.processes, arguments.rounds)
    for one in costs.measured:
        middle = sorted(one.milliseconds)[len(one.milliseconds) // 2]
        print(f"{' '.join(f'{k}={v}' for k, v in one.site):60} {middle:9.2f} ms {one.megabytes:8.2f} MB")
    if arguments.write:
        text = json.dumps(costs.model_dump(mode="json"), sort_keys=True, indent=1, ensure_ascii=False)
        write(TARGET, text + "\n")


if __name__ == "__main__":
    main()
