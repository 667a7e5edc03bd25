"""Processor time and peak memory of everything that is read from `results/`, with as many runs, twice and four times.

python benchmarks/reports.py            # print the table
python benchmarks/reports.py --write    # reports.json, and with it the page README.md

The further runs are the published ones under other seeds, in a copy of this checkout that is thrown away.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from measure import Table, machine, markdown
from page import write

from study.store.folder import Store
from study.store.manifest import Results, write_manifest
from study.store.rows import arm_of, seed_of
from study.sweep.spec import load

ROOT = Path(__file__).parents[1]
COPIED = ("study", "sweeps", "results", "docs", "paper", "README.md", "requirements.lock", "pyproject.toml")
TIMES = (1, 2, 4)
RUN = "grammar-recurrent-dot-3a3e5c84-s1"
VERBS = (("ls", "runs"), ("claims", "4"), ("show", RUN), ("verify",), ("reproduce", "tables"), ("site",))
MEASURE = """
import json, resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([status, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""Program that measures a command. A new process counts the memory of the one that started it, so this one is small."""
BY_RUN = ("runs", "scores", "curves", "maps")


def multiply(copy: Path, times: int) -> int:
    """Give every run of a copy of the checkout `times` seeds for one; return the number of runs there are then."""
    results = Results(copy / "results")
    step = max(map(seed_of, results.store.ids())) + 1
    for name in BY_RUN:
        path = results.root / name / "0001.parquet"
        table = pq.read_table(path)
        pq.write_table(pa.concat_tables([_moved(table, k * step) for k in range(times)]), path, compression="zstd")
    for path in (results.root / "sentences").glob("*/*.parquet"):
        whole = pq.read_table(path)
        with pq.ParquetWriter(path, whole.schema, compression="zstd") as writer:
            for split in sorted(whole["split"].unique().to_pylist()):
                some = whole.filter(pc.equal(whole["split"], split))
                moved = pa.concat_tables([_moved(some, k * step) for k in range(times)])
                writer.write_table(moved.sort_by([("sentence", "ascending"), ("id", "ascending")]), 200_000)
    for file in (copy / "sweeps").glob("*.yaml"):
        file.write_text(
            re.sub(r"(seed:\n +values: )\[([\d, ]+)\]", lambda m: _seeds(m, times, step), file.read_text(), count=1)
        )
    sweeps = {
        name: one.model_dump(mode="json") | {"sweep_id": load(copy / one.file).sweep_id}
        for name, one in results.manifests.items()
    }
    write_manifest(results.root, sweeps)
    return len(Store(results.root).ids())


def _seeds(found: re.Match[str], times: int, step: int) -> str:
    seeds = [int(one) for one in found[2].split(",")]
    return f"{found[1]}[{', '.join(str(k * step + seed) for k in range(times) for seed in seeds)}]"


def _moved(table: pa.Table, by: int) -> pa.Table:
    """Return rows of runs under seeds that are larger by a number."""
    if not by:
        return table
    names = table["id"].combine_chunks().dictionary_encode()
    ids = [f"{arm_of(one)}-s{seed_of(one) + by}" for one in names.dictionary.to_pylist()]
    columns: dict[str, Any] = {"id": pa.DictionaryArray.from_arrays(names.indices, pa.array(ids)).cast(pa.string())}
    if "seed" in table.column_names:
        columns["seed"] = pc.add(table["seed"], by).cast(table["seed"].type)
    if "record" in table.column_names:
        trees = [json.loads(text) for text in table["record"].to_pylist()]
        for tree in trees:
            tree |= {"id": f"{arm_of(tree['id'])}-s{tree['seed'] + by}", "seed": tree["seed"] + by}
            tree["config"] |= {"seed": tree["seed"]} if "seed" in tree["config"] else {}
        columns["record"] = pa.array([json.dumps(tree, sort_keys=True, ensure_ascii=False) for tree in trees])
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def measured(copy: Path, words: tuple[str, ...]) -> tuple[float, float]:
    """Return the processor seconds and the peak megabytes of a command line.

    Raises:
        SystemExit: it ends as with wrong input.
    """
    command = [sys.executable, "-c", MEASURE, sys.executable, "-P", "-m", "study", *words]
    done = subprocess.run(command, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True)
    status, seconds, kilobytes = json.loads(done.stdout)
    if status not in (0, 1):
        raise SystemExit(f"study {' '.join(words)}: status {status}\n{done.stderr}")
    return seconds, kilobytes / 1024


def table(times: tuple[int, ...]) -> Table:
    """Return the table of all verbs."""
    rows: list[list[str | float | None]] = [[f"study {' '.join(words[:2])}".replace(RUN, "RUN")] for words in VERBS]
    sizes = []
    for factor in times:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder)
            for name in COPIED:
                of = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                of(ROOT / name, copy / name)
            sizes.append(multiply(copy, factor))
            for row, words in zip(rows, VERBS, strict=True):
                row += measured(copy, words)
                print(*row, file=sys.stderr, flush=True)
    columns = ["command", *(text for size in sizes for text in (f"{size} runs, s", "MB"))]
    about = (
        "Processor time and peak memory of one call, the start of Python included. Further seeds are copies of runs."
    )
    return Table("reports", "Reading the published runs", about, columns, rows)


def main() -> None:
    """Measure, print, and write on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, nargs="+", default=TIMES, help="how many times the published runs")
    parser.add_argument("--write", action="store_true", help="write reports.json and README.md")
    arguments = parser.parse_args()
    found = table(tuple(arguments.times))
    print(markdown(found))
    if arguments.write:
        write("reports", {**machine(), "tables": [found._asdict()]})


if __name__ == "__main__":
    main()
