"""A sweep by the local engine: here, or by a launcher of its own, `python launching.py FILE OUT TRIAL SLOTS`."""

import os
import select
import subprocess
import sys
from pathlib import Path

import sweep_trials

from study.sweep import engine, places, resources, signals
from study.sweep.spec import load

PATIENCE = sweep_trials.PATIENCE


def run_sweep(spec, out, slots=None, trial=sweep_trials.quick, cells=None, **policy):
    """Run a sweep here; return the status."""
    places.write(spec, out)
    job = engine.job_of(spec, cells or spec.cells, out, slots=slots, trial=trial, **policy)
    return engine.run(job, resources.here())


def launch(file, out, trial, count=2):
    """Start a launcher."""
    arguments = [sys.executable, __file__, str(file), str(out), trial, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


COMMAND = """
import sys, sweep_trials
from study.commands import sweep
from study.sweep import engine
job_of, trial = engine.job_of, getattr(sweep_trials, sys.argv[1])
engine.job_of = lambda *given, **more: job_of(*given, **more, trial=trial)
sweep._report = lambda *_: None  # the stand-ins have no scores
from study.__main__ import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
"""
"""The program, with a stand-in for the training."""


def launch_command(trial, *words):
    """Start the program with a stand-in for the training."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, trial, *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class Started:
    """Waits for trials that say that they have begun, or made a step."""

    def __init__(self, out):
        out.mkdir(exist_ok=True)
        os.mkfifo(out / "started")
        self.pipe = os.open(out / "started", os.O_RDWR | os.O_NONBLOCK)

    def wait(self, count):
        for _ in range(count):
            assert select.select([self.pipe], [], [], PATIENCE)[0], "no trial says that it has begun"
            os.read(self.pipe, 1)


if __name__ == "__main__":
    file, out, trial, slots = sys.argv[1:]
    if trial == "stubborn":
        signals.GRACE = 600  # what ends before is ended by the second interrupt
    code = run_sweep(load(Path(file)), Path(out), int(slots), getattr(sweep_trials, trial))
    heavy = {"torch", "wandb", "pytorch_lightning", "ray", "submitit"} & set(sys.modules)
    print("heavy:", *sorted(heavy), flush=True)
    sys.exit(code)
