"""Predictions in the comments of a sweep file are those that the script beside it computes from published runs."""

import re
import runpy

import pytest

from study.folders import CHECKOUT

SWEEPS = CHECKOUT / "sweeps"
SCRIPT = SWEEPS / "decoder_only_power.py"
LINE = re.compile(r"^#   (\S.*?) +([0-9a-f]{8}) +(\S+) +(.+)$", re.MULTILINE)


@pytest.mark.parametrize("sweep", sorted(path.stem for path in SWEEPS.glob("decoder_only*.yaml")))
def test_what_is_foretold_of_decoder_only_models_follows_from_published_runs(sweep):
    script = runpy.run_path(str(SCRIPT))
    written = {}
    for match in LINE.finditer((SWEEPS / f"{sweep}.yaml").read_text("utf-8")):
        arm, name, effect, kind = match.groups()
        written[arm] = (name, effect, kind)
    computed = {arm: (name, f"{effect:+.3f}", kind) for arm, (name, effect, kind) in script["foretold"](sweep).items()}
    assert len(computed) > 10
    assert written == computed
