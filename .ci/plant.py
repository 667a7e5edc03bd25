"""Runs of a newcomer whose processor rounds differently, in runs/: `plant.py` writes them and prints their digest.

They are the runs of the first sweep, copied from the published ones with other translations and scores. A test that
reads them in place of published runs fails. `plant.py DIGEST` fails if runs/ was changed.
"""

import hashlib
import json
import sys
from pathlib import Path

from study.files import write
from study.store.folder import Store
from study.sweep.spec import load

RUNS = Path("runs")


def plant() -> None:
    """Write a record and translations for each run of the first sweep, each with other values."""
    store = Store(Path("results"))
    for cell in load(Path("sweeps/quickstart.yaml")).runnable:
        tree = store.tree(str(cell.id))
        for score in tree["scores"]:
            score["value"] = None if score["value"] is None else round(score["value"] * 0.97, 4)
            if name := score["hypotheses"]:
                lines = store.hypotheses(str(cell.id), score["split"])
                content = "\n".join(reversed(lines)) + "\n"
                score["hypotheses_sha256"] = hashlib.sha256(content.encode()).hexdigest()
                write(RUNS / str(cell.id) / name, content)
        write(RUNS / str(cell.id) / "record.json", json.dumps(tree, sort_keys=True, indent=1) + "\n")


def digest() -> str:
    """Return the SHA-256 of names and contents of all files of runs/."""
    total = hashlib.sha256()
    for path in sorted(RUNS.rglob("*")):
        total.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
    return total.hexdigest()


def main(before: str = "") -> int:
    """Plant the runs and print their digest; or return 1 if it is another one than before."""
    if not before:
        plant()
    now = digest()
    print(now)
    return int(before not in ("", now))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
