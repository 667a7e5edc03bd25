"""Faults of the machine of a test: Python imports this first, in every process that a verb starts.

The environment says it. LACKS: packages that cannot be found. KILL: the n-th file that a process of this test puts in
place is never there, because the process is killed just before. BACK: seconds by which the clock was set back.
"""

import os
import signal
import sys
import time
from importlib.machinery import PathFinder

LACKS = frozenset(os.environ.get("SITUATION_LACKS", "").split())
KILL = int(os.environ.get("SITUATION_KILL", "0"))
SIGNAL = signal.Signals[os.environ.get("SITUATION_SIGNAL", "SIGKILL")]
BACK = float(os.environ.get("SITUATION_BACK", "0"))

if LACKS:

    class Lacking(PathFinder):
        """Finds modules, but for those of the packages that are not installed here."""

        @classmethod
        def find_spec(cls, fullname, path=None, target=None):
            return None if fullname.partition(".")[0] in LACKS else super().find_spec(fullname, path, target)

    sys.meta_path[sys.meta_path.index(PathFinder)] = Lacking

if BACK:
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() - BACK
    time.time_ns = lambda: now_ns() - int(BACK * 1e9)

if KILL:
    replace, counter = os.replace, os.environ["SITUATION_COUNTER"]

    def killed(source, target, **places):
        """Put a file in place, or get the signal if it is the n-th of all processes."""
        if "__pycache__" not in str(target):
            with open(counter, "a", encoding="utf-8") as file:
                file.write("x")
            if os.path.getsize(counter) == KILL:
                os.kill(os.getpid(), SIGNAL)
        replace(source, target, **places)

    os.replace = killed
