"""The benchmarks run: what they measure is not asserted here."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "throughput.py"


def test_throughput_compares_the_two_loops() -> None:
    spec = importlib.util.spec_from_file_location("throughput", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    throughput = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(throughput)
    ours, theirs, ratio = throughput.compare("embedded", segments=2, segment=1)
    assert min(ours, theirs, ratio) > 0
