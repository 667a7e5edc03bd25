"""What a reader does with an installed package, in an empty folder and without torch: `smoke.py PYTHON`.

PYTHON is the interpreter of an environment with the package. The published results are fetched from this checkout, and
everything is made of them again: each table has to be what is published, and each figure, if matplotlib is as new.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUN = "grammar-recurrent-dot-c61874e4-s1"
FIGURES = "differs from what is published: figures/"
"""How a line begins that names a figure of other bytes."""
STEPS = [
    ("--version", "."),
    (f"fetch results --from {ROOT}", "results: fetched"),
    ("ls sweeps", "quickstart"),
    ("sweep quickstart --dry-run", "quickstart"),
    ("ls runs --query id.str.contains('c61874e4')", RUN),
    (f"show {RUN} --plot run.svg", "maps"),
    ("claims 4", "4b"),
    ("reproduce tables", "nothing differs from what is published"),
    ("reproduce figures", "nothing differs from what is published"),
    ("verify", "differences   none"),
    ("site", "_site/index.html"),
]
"""Words of a command ↦ what it has to print."""
ASKS = "import importlib.util as u, matplotlib as m; print(u.find_spec('torch') is None, *m.__version_info__[:2])"


def main(python: str) -> int:
    """Run the steps; return 1 after the first that fails."""
    asked = subprocess.run([python, "-c", ASKS], capture_output=True, text=True, check=True).stdout.split()
    if asked[0] != "True":
        print("smoke: expected an environment without torch, got one with it", file=sys.stderr)
        return 2
    older = tuple(map(int, asked[1:])) < (3, 11)
    with tempfile.TemporaryDirectory() as folder:
        for words, expected in STEPS:
            began = time.monotonic()
            command = [python, "-P", "-m", "study", *words.split(" ")]
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            lines = ran.stdout.splitlines()
            drawn = [line for line in lines if line.startswith(FIGURES)]
            good = ran.returncode == 0 and expected in ran.stdout
            if older and words == "reproduce figures":
                good |= ran.returncode == 1 and lines[1:] == drawn
            print(f"{'ok' if good else 'FAILED'}  {time.monotonic() - began:5.1f} s  study {words}", flush=True)
            if not good:
                print(ran.returncode, ran.stdout[-2000:], ran.stderr[-2000:], sep="\n", file=sys.stderr)
                return 1
        if not (Path(folder) / "run.svg").read_text("utf-8").startswith("<?xml"):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(str(Path(sys.argv[1]).absolute())))
