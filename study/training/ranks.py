"""One run on several devices: rank 0 is the process that records; it starts a process for every other rank.

Each rank takes its rows of every batch (`batches.share`), and gradients are averaged. Rank 0 alone validates, tests and
writes. The others end when it ends, however that happens.

Lightning would start them by running this process's command again: in a trial of a sweep, the sweep.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

from lightning_fabric.plugins.environments.lightning import LightningEnvironment, find_free_network_port
from torch import Tensor, distributed

from study.errors import BROKEN, FAILED, LostError, ending

GRACE = 10.0
"""Seconds that a rank has to end by itself when another one has."""
START = "spawn"
"""Start method of the processes of other ranks: a new Python."""


class Ranks(LightningEnvironment):
    """The processes of one run, and this one's place among them.

    What a cluster's own launcher sets in the environment is not read: several runs may share one of its jobs.
    """

    creates_processes_externally, main_address = True, "127.0.0.1"

    def __init__(self, count: int, rank: int = 0, port: int | None = None) -> None:
        super().__init__()
        self.count, self.rank = count, rank
        self._main_port = port or (find_free_network_port() if count > 1 else -1)

    def local_rank(self) -> int:
        return self.rank

    def node_rank(self) -> int:
        return 0

    @contextmanager
    def together(
        self, follow: Callable[..., None], part: tuple[Any, ...], asked: Callable[[], int | None]
    ) -> Iterator[None]:
        """Context with the other ranks, from their start to their end; nothing where there is one device.

        Args:
            follow: what each of them runs, with its `Ranks` and `part`.
            part: arguments that can be pickled.
            asked: returns the signal that has asked this process to end.

        Raises:
            LostError: another rank was killed.
        """
        context: Any = multiprocessing.get_context(START)
        others, over = list[Any](), threading.Event()
        for rank in range(1, self.count) if self.rank == 0 else ():
            place = Ranks(self.count, rank, self.main_port)
            others.append(context.Process(target=_joined, args=(follow, place, *part), name=f"rank {rank}"))
            others[-1].start()
            threading.Thread(target=_guard, args=(others[-1], over, asked), daemon=True).start()
        try:
            yield
        except Exception:  # a library's, which says that a connection has ended, and not why
            wait([process.sentinel for process in others], timeout=1)
            for process in others:
                process.join(0.1)  # a killed process closes its connections a moment before it has an exit code
                if (process.exitcode or 0) < 0:
                    raise LostError(f"{process.name}: {ending(process.exitcode)}; the same command continues") from None
            raise
        finally:
            over.set()
            if distributed.is_initialized():
                distributed.destroy_process_group()
            for process in others:
                process.join(GRACE)
                process.kill()


def _guard(process: Any, over: threading.Event, asked: Callable[[], int | None]) -> None:
    """End this process if a rank is gone: it may wait inside a library, where no exception reaches it."""
    wait([process.sentinel])
    if not over.wait(GRACE) and process.exitcode:
        how = ending(process.exitcode)
        print(f"study: {process.name}: {how}; the same command continues", file=sys.stderr, flush=True)
        ended = process.exitcode in (-signal.SIGTERM, 128 + signal.SIGTERM)
        number = asked() or (signal.SIGTERM if ended else None)
        os._exit(128 + number if number else FAILED if process.exitcode < 0 else BROKEN)


def _joined(follow: Callable[..., None], *arguments: Any) -> None:
    """Take the part of another rank. From here on this process ends when rank 0 does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; rank 0 is the one to answer

    def watch() -> None:
        first = multiprocessing.parent_process()
        assert first is not None
        first.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    follow(*arguments)


def mean_over_ranks(value: Tensor) -> Tensor:
    """Return the mean of a value that every rank has one of."""
    if not distributed.is_initialized():
        return value
    total = value.detach().clone()
    distributed.all_reduce(total)
    return total / distributed.get_world_size()
