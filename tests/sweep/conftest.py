"""A sweep file of tiny trials, the folder of its runs, and a stand-in for W&B's server with its client's commands."""

import os

import pytest
import wandb
from click.testing import CliRunner
from loopback import Loopback
from wandb.cli.cli import cli


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


@pytest.fixture
def server():
    with Loopback() as running:
        yield running
        running.shutdown()
    assert not running.mistakes


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Function that calls a command of W&B's client in this process, for a server or for none."""

    def call(server, *words):
        told = {"WANDB_DIR": str(tmp_path)} | (server.environment() if server else {})
        with monkeypatch.context() as here:
            for name in [name for name in os.environ if name.startswith("WANDB_")]:
                here.delenv(name)
            for name, value in told.items():
                here.setenv(name, value)
            wandb.teardown()  # it keeps the environment of its first use
            told = CliRunner().invoke(cli, list(map(str, words)))
            wandb.teardown()
        assert told.exit_code == 0, told.output

    return call
