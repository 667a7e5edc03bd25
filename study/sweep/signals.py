"""Signals, and the rule that a process ends with the one that started it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

LOOK = 0.5
"""Seconds between two looks at the process that started this one."""
GRACE = 10.0
"""Seconds that a process which was asked to end has for its checkpoint, before it is killed."""


@contextlib.contextmanager
def noted() -> Iterator[list[int]]:
    """Context in which SIGINT and SIGTERM are only noted, in the list that it gives.

    A signal that is ignored on entry stays ignored, as `nohup` and shells' background jobs want it for SIGINT.
    """
    found: list[int] = []
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    before = {one: handler for one, handler in before.items() if handler is not signal.SIG_IGN}
    for one in before:
        signal.signal(one, lambda number, frame: found.append(number))
    try:
        yield found
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextlib.contextmanager
def on_request() -> Iterator[list[int]]:
    """Context in which SIGTERM raises, so that all work is ended in order; the exit status is 143.

    The signal is noted in the list that the context gives, since libraries may turn the exception into another one.
    """
    found: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        found.append(number)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield found
    finally:
        signal.signal(signal.SIGTERM, before)


def with_parent() -> None:
    """End when the process that started this one is gone, however it ended: no run goes on that nobody counts.

    SIGTERM first, which lets a run keep its step; SIGKILL after `GRACE`, to all that this process has started. The
    starter is the parent, and for a process of multiprocessing's fork server also the one that asked for it.
    """
    parent, starter = os.getppid(), multiprocessing.parent_process()

    def watch() -> None:
        while os.getppid() == parent and (starter is None or starter.is_alive()):
            time.sleep(LOOK)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
