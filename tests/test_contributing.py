"""The patch of the guide applies to this tree, and its score is whole."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import output_of

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs/adding-a-mechanism.md").read_text(encoding="utf-8")
COPIED = ("study", "sweeps", "tests/attention")
CHECKS = """
import sys
from pathlib import Path

import pytest

from study.config import experiment_from
from study.errors import InputError
from study.publish.catalogue import markdown
from study.sweep.spec import load

score, maps, start = "model.attention.score", "model.attention.maps", "model.attention.logit_init"
assert experiment_from({score: "distance", maps: "tied_signed"}).model.attention.cross.scale == "rsqrt"
assert experiment_from({score: "distance", maps: "separate", start: "matched"})
for fields, reason in (
    ({score: "distance", start: "matched"}, "but score distance and maps raw have none. Use maps separate"),
    ({score: "distance", "model.encoder_width": 32}, "expected queries and keys of one size for distance"),
    ({score: "distances"}, "distance"),
):
    try:
        experiment_from(fields)
    except InputError as problem:
        assert reason in str(problem), problem
    else:
        raise AssertionError(fields)
assert len(load(Path("sweeps/distance.yaml")).runnable) == 10
assert "| `distance` | `−½‖q − k‖²`, d = K | Tsai et al. 2019 |" in markdown()
chosen = ["tests/attention/test_definitions.py", "-k", "distance"]
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *chosen]))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_patch_of_the_guide_adds_a_whole_score(tmp_path):
    (diff,) = re.findall(r"```diff\n(.*?)```", GUIDE, re.DOTALL)
    sweeps = re.findall(r"^\+\+\+ b/(sweeps/\S+)", diff, re.MULTILINE)
    assert sweeps
    assert not [name for name in sweeps if (ROOT / name).exists()], "it edits no sweep that exists"
    for part in COPIED:
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "apply", "-"], input=diff, text=True, check=True, cwd=tmp_path)
    said = output_of(sys.executable, "-c", CHECKS, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert "20 passed" in said, "20 sites"
