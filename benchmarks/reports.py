"""Times of everything that is computed from `results/`, with many records: verify, reproduce, and the paper alone.

python benchmarks/reports.py               # 600 records
python benchmarks/reports.py --runs 1000

The records are the published ones under further seeds, in a clone of this checkout that is thrown away; every copy has
its own translations, so that nothing is scored only once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from study.publish.results import Results
from study.store import NewRun, Store, arm_of
from study.sweep.spec import load

ROOT = Path(__file__).parents[1]
STUDY = [sys.executable, "-P", "-m", "study"]


def multiply(clone: Path, runs: int) -> int:
    """Seeds added to every published sweep until there are so many records; how many there are then."""
    results = Results(clone / "results")
    store, made = results.store, results.records
    seeds = sorted({record.seed for record in made.values()})
    steps = [k * (max(seeds) + 1) for k in range(math.ceil(runs / len(made)))]
    for arm in store.arms():
        store.add(arm, [_copy(store, identity, step) for identity in store.ids(arm) for step in steps[1:]])
    every = ", ".join(str(step + seed) for step in steps for seed in seeds)
    for file in (clone / "sweeps").glob("*.yaml"):  # of all: a claim compares arms of several
        file.write_text(re.sub(r"(seed:\n +values: )\[[\d, ]+\]", rf"\1[{every}]", file.read_text(), count=1))
    for name, manifest in results.manifests.items():
        told = results.root / "sweeps" / f"{name}.json"
        tree = json.loads(told.read_text()) | {"sweep_id": load(clone / manifest.file).sweep_id}
        told.write_text(json.dumps(tree))
    return len(made) * len(steps)


def _copy(store: Store, identity: str, step: int) -> NewRun:
    tree = json.loads(store.text(identity))
    seed = tree["seed"] + step
    tree |= {"id": f"{arm_of(identity)}-s{seed}", "seed": seed}
    if "seed" in tree["config"]:
        tree["config"]["seed"] = seed
    return NewRun(tree, {name: store.content(identity, name) or b"" for name in store.names(identity)})


def main() -> int:
    """Clone, multiply, time; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=600)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        print(f"{multiply(clone, runs)} records")
        for words in (["verify"], ["verify", "--rescore"], ["reproduce"], ["reproduce", "paper"]):
            began = time.perf_counter()
            done = subprocess.run([*STUDY, *words], cwd=clone, capture_output=True, text=True, env=_environment(clone))
            print(f"{' '.join(words):16} {time.perf_counter() - began:6.1f} s   status {done.returncode}", flush=True)
            if done.returncode == 2:
                print(done.stderr)
                return 2
    return 0


def _environment(clone: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(clone)}


if __name__ == "__main__":
    sys.exit(main())
