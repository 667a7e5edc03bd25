"""Other processes: commands that have to succeed, what they do in their time, and which there are."""

import os
import subprocess
import time
from pathlib import Path


def output_of(*command, cwd=None, **environment):
    """Run a command, with more in its environment; return what it prints."""
    done = subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def until(happened, seconds=240):
    """Wait for something that other processes do; return how long it took."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < seconds, "it does not happen"
        time.sleep(0.05)
    return time.monotonic() - began


def parents():
    """Process ↦ its parent and its command line, of all processes that are no zombies."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            command = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if state != "Z":
            found[int(stat.parent.name)] = (int(parent), command)
    return found


def descendants(pid):
    """Return the processes that a process has started, and those that they have."""
    found, known = {pid}, parents()
    while new := {one for one, (parent, _) in known.items() if parent in found} - found:
        found |= new
    return found - {pid}
