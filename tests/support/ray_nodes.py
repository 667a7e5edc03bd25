"""A Ray cluster of several nodes on this machine, each a `ray start` of its own that can be killed."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path


class Nodes:
    """A cluster of so many nodes with one core each; the first is the head."""

    def __init__(self, count):
        self.folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # names of sockets must be short
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        head = ["--head", f"--port={self.address.partition(':')[2]}", f"--temp-dir={self.folder}"]
        head += ["--include-dashboard=false", "--object-store-memory=80000000"]
        self.nodes = [self._start(*head)]
        self._until_open()
        for _ in range(count - 1):
            self.add()

    def add(self):
        """Start another node."""
        self.nodes.append(self._start(f"--address={self.address}", "--object-store-memory=80000000"))

    def _start(self, *options):
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1", "--num-gpus=0"]
        with (self.folder / "start.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--disable-usage-stats", *options], stdout=log, stderr=log, start_new_session=True
            )

    def _until_open(self):
        deadline = time.monotonic() + 90
        host, _, port = self.address.partition(":")
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
                return
            time.sleep(0.1)
        raise RuntimeError((self.folder / "start.log").read_text(errors="replace")[-2000:])

    def kill(self, number):
        """Kill a node with all its processes, as a power cut does."""
        os.killpg(self.nodes[number].pid, signal.SIGKILL)
        self.nodes[number].wait()

    def stop(self):
        """End the cluster."""
        for number in range(len(self.nodes)):
            with suppress(ProcessLookupError):
                self.kill(number)
        shutil.rmtree(self.folder, ignore_errors=True)
