"""A sweep file of tiny trials, and the folder of its runs."""

import pytest


@pytest.fixture
def file(tmp_path):
    def write(*seeds, device="cpu"):
        path = tmp_path / "tiny.yaml"
        head = "name: tiny\nmethod: grid\nmetric: {name: test/exact}\n"
        path.write_text(
            f"{head}parameters:\n  seed: {{values: {list(seeds)}}}\n  trainer.device: {{value: {device}}}\n"
        )
        return path

    return write


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs"
