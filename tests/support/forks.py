"""A process that has loaded torch once, and forks another for each run that a test stops or kills for real."""

import json
import subprocess
import sys

import pytest
from tiny_sweep import VALIDATED

SERVER = """
import json, os, signal, sys
from pathlib import Path
from study.__main__ import main
from study.config import experiment_from
from study.corpora.probes import probe
from study.training.run import run
probe.VALID = int(sys.argv[1])
for line in sys.stdin:
    code, given, log = json.loads(line)
    if isinstance(code, int):
        print(os.waitstatus_to_exitcode(os.waitpid(code, 0)[1]), flush=True)
        continue
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    os.setpgid(0, 0)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    try:
        exec(code, globals() | {"given": given})
        status = 0
    except SystemExit as ending:
        status = ending.code
    os._exit(status)
"""


class Forks:
    """Starts processes that run some Python with `main`, `run` and `experiment_from` at hand, and waits for them."""

    def __init__(self, log):
        self.log = log
        """Everything that the latest process has printed."""
        command = [sys.executable, "-c", SERVER, str(VALIDATED)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _asked(self, *request):
        self.process.stdin.write(json.dumps([*request, str(self.log)]) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, code, *given):
        """Start the code, which finds its arguments in `given`, in a process group of its own; return its id."""
        return self._asked(code, given)

    def ended(self, pid):
        """Wait for a process; return its exit status, or minus the signal that ended it."""
        return self._asked(pid, None)


@pytest.fixture(scope="session")
def forks(tmp_path_factory):
    made = Forks(tmp_path_factory.mktemp("forks") / "log")
    yield made
    made.process.kill()
    made.process.wait()
