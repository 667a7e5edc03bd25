"""All tests stay off the network and out of the user's folders, and take one thread."""

import ipaddress
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

pytest_plugins = ["tiny_sweep"]
WORKER = "PYTEST_XDIST_WORKER" in os.environ
CACHE = Path(os.environ["XDG_CACHE_HOME"] if WORKER else tempfile.mkdtemp(prefix="attention-ablation-tests-"))
"""Generated corpora and fonts; all workers of a call share them."""
# Set while pytest starts: before torch, matplotlib and the W&B client are imported, and for child processes too.
os.environ |= {
    "WANDB_MODE": "disabled",
    "XDG_CACHE_HOME": str(CACHE),
    "MPLCONFIGDIR": str(CACHE / "matplotlib"),  # also where a test has a cache of its own
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
}
for name in ("STUDY_RUNS", "WANDB_API_KEY", "WANDB_RUN_ID", "WANDB_SWEEP_ID"):
    os.environ.pop(name, None)


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: many tests wait for processes and servers of their own."""
    return (os.cpu_count() or 1) + 1


def pytest_unconfigure() -> None:
    if not WORKER:
        shutil.rmtree(CACHE, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections end at this machine: a test that needs another has lost its stand-in."""
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and not _local(str(address[0])):
            raise OSError(f"a test wanted to connect to {address[0]}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", local_only)


def _local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
