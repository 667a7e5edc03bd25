"""A random audit of the published runs, drawn by a text that nobody chooses freely: `audit.py COMMIT`.

The translations of a twentieth of the runs are scored again, and one short run is trained again, which has to be equal
bit for bit. Another commit draws other runs.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from study.commands.verify import Progress
from study.publish.results import Results
from study.publish.verify import drawn, verify

PART = 20
LONGEST = 40.0
"""Seconds that the retrained run took."""


def main(commit: str) -> int:
    """Return 0 if nothing differs, 1 otherwise."""
    results = Results(Path("results"))
    runs = results.store.runs
    short = runs[(runs.status == "finished") & (runs.wall_seconds <= LONGEST) & (runs.deterministic == True)]  # noqa: E712
    (one,) = drawn(list(short.id), len(short), commit)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "study", "rerun", one, "--runs", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as again:
            found = verify(results, rescore=PART, drawn_by=commit, told=Progress())
            print("\n".join(found.lines()), flush=True)
            print(again.communicate()[0], flush=True)
    return int(bool(found.problems) or again.returncode != 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
