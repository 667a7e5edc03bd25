"""One run on several devices: rank 0 is the process that records; every other rank is a process that it starts.

Each rank takes its rows of every batch (`batches.share`), and gradients are averaged. Rank 0 alone validates, tests and
writes. The others are sent their part through a pipe, and end when it closes, however rank 0 ended.

Lightning would start them by running this process's command again: in a trial of a sweep, the sweep.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from lightning_fabric.plugins.environments.lightning import LightningEnvironment, find_free_network_port
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor, distributed

from study.errors import BROKEN

START = "from study.training.run import follow; follow()"
"""Code that the process of another rank runs."""
GRACE = 10.0
"""Seconds that a rank has to end by itself when another one has."""


class Ranks(LightningEnvironment):
    """The processes of one run, and this one's place among them.

    What a cluster's own launcher sets in the environment is not read: several runs may share one of its jobs.
    """

    creates_processes_externally, main_address = True, "127.0.0.1"

    def __init__(self, count: int, rank: int = 0, port: int | None = None) -> None:
        super().__init__()
        self.count, self.rank = count, rank
        self._main_port = port or (find_free_network_port() if count > 1 else -1)
        self.others: list[subprocess.Popen[bytes]] = []
        self.over = threading.Event()
        self.asked: Callable[[], int | None] = lambda: None
        """Returns the signal that has asked this process to end."""

    def local_rank(self) -> int:
        return self.rank

    def node_rank(self) -> int:
        return 0

    @contextmanager
    def together(self, part: object, threads: int | None) -> Iterator[None]:
        """The other ranks, from their start to their end; nothing where there is one device.

        Args:
            part: they get it from `joined`.
            threads: CPU threads of each; None: Lightning shares out the cores.
        """
        if self.count > 1 and threads:
            os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        try:
            for rank in range(1, self.count) if self.rank == 0 else ():
                self._start(rank, (part, self.count, rank, self.main_port))
            yield
        except Exception as problem:  # a rank that is gone breaks an exchange with it
            self.over.wait(0.2)
            if lost := [process.returncode for process in self.others if process.poll()]:
                raise RuntimeError(f"another process of this run ended with status {lost[0]}") from problem
            raise
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()
            self._end()

    def _start(self, rank: int, message: tuple[Any, ...]) -> None:
        process = subprocess.Popen([sys.executable, "-c", START], stdin=subprocess.PIPE)
        self.others.append(process)
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # its guard ends this process
            pickle.dump(message, process.stdin)
            process.stdin.flush()
        threading.Thread(target=self._guard, args=(rank, process), name=f"rank-{rank}-guard", daemon=True).start()

    def _guard(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        """End this process if a rank is gone: it may wait inside a library, where no exception reaches it."""
        code = process.wait()
        if code and not self.over.wait(GRACE):
            print(f"rank {rank} of {self.count} ended with status {code}", file=sys.stderr, flush=True)
            number = self.asked() or (signal.SIGTERM if code == -signal.SIGTERM else None)
            os._exit(128 + number if number else BROKEN)

    def _end(self) -> None:
        self.over.set()
        for process in self.others:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.others = []


class Strategy(DDPStrategy):
    """Lightning's, with our handlers of signals: it meets the other ranks right after it has set its own.

    Waiting has no limit, because a rank that ends ends the others.

    Args:
        install: sets our handlers.
    """

    def __init__(self, install: Callable[[], None]) -> None:
        super().__init__(find_unused_parameters=True, timeout=timedelta(days=30))
        self.install = install

    def barrier(self, *args: Any, **kwargs: Any) -> None:
        self.install()
        super().barrier(*args, **kwargs)


def mean_over_ranks(value: Tensor) -> Tensor:
    """The mean of a value that every rank has one of."""
    if not distributed.is_initialized():
        return value
    total = value.detach().clone()
    distributed.all_reduce(total)
    return total / distributed.get_world_size()


def joined() -> tuple[Any, Ranks]:
    """Return what rank 0 wants of this process, and its place. From here on it ends when rank 0 does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; rank 0 is the one to answer
    part, count, rank, port = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_rank_zero, name="rank-0-watch", daemon=True).start()
    return part, Ranks(count, rank, port)


def _end_with_rank_zero() -> None:
    os.read(sys.stdin.fileno(), 1)  # nothing comes but the end; Python could not end while its own reader waits
    os._exit(1)
