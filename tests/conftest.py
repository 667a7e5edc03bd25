"""All tests stay off the network and out of the user's folders, and take one thread."""

import ipaddress
import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path

import pytest

pytest_plugins = ["tiny_sweep", "forks", "verbs", "browsers"]
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
PROCESSES = """
test_lab test_engines test_recompute test_scores test_matrix test_faults test_wandb_outages test_agents test_packaging
test_interruptions test_devices test_run test_wandb_push test_api test_world test_text test_own_mechanism test_resources
test_publish test_pruning_runs test_local test_conformance test_preemption test_documents test_contributing
test_new_corpus test_site test_tune test_ledger test_pages test_benchmarks
"""
"""Modules with tests that take long, the longest first; test_run after test_devices, whose server it uses."""
# A shell starts what runs in the background with Ctrl-C ignored; child processes inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Else every process would compile the package again, and every worker the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
for name in ("STUDY_RUNS", "WANDB_API_KEY", "WANDB_RUN_ID", "WANDB_SWEEP_ID"):
    os.environ.pop(name, None)


def pytest_xdist_auto_num_workers():
    """One more than cores: many tests wait for processes and servers of their own."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items):
    """Begin with what takes long. The first worker is given it, and the others steal from its end."""
    rank = {name: number for number, name in enumerate(PROCESSES.split())}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def pytest_collection_finish():
    """Run the tests in an empty folder: that of the checkout may have a newcomer's own runs, results or sweeps."""
    folder = CACHE / "empty"
    folder.mkdir(exist_ok=True)
    os.chdir(folder)


def pytest_unconfigure():
    if not WORKER:
        shutil.rmtree(CACHE, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Connections end at this machine: a test that needs another has lost its stand-in."""
    connect = socket.socket.connect

    def local_only(self, address):
        if isinstance(address, tuple) and not _local(str(address[0])):
            raise OSError(f"a test wanted to connect to {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


def _local(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
