"""Commands that are killed at each of their writes, and repeated."""

import subprocess
import sys
from pathlib import Path

import pytest

KILLING = Path(__file__).parents[1] / "support" / "killing.py"


@pytest.mark.parametrize("verb", ["site", "report", "publish"])
def test_a_verb_that_is_killed_at_any_write_is_completed_by_the_same_command(verb, finished, tmp_path):
    """Half of a file is never there, and no folder is refused. Temporary files stay in a report alone."""
    lab = finished.copy(tmp_path / "lab")
    out = tmp_path / "lab" / "results" if verb == "publish" else tmp_path / "out"
    words = {
        "site": ["site", "--runs", "runs", "--out", out],
        "report": ["report", "sweeps/tiny.yaml", "--runs", "runs", "--out", out],
        "publish": ["publish", "sweeps/tiny.yaml", "--runs", "runs"],
    }[verb]
    command = [sys.executable, "-P", KILLING, out, *words]
    done = subprocess.run(list(map(str, command)), cwd=lab.top, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-2]) >= {"site": 10, "report": 4, "publish": 6}[verb]
