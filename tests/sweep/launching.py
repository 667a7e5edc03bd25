"""A sweep with stand-ins for trainings, here by the local engine, or by a launcher of its own.

`python launching.py FILE OUT TRIAL SLOTS [ray]`: ray starts a cluster.
"""

import os
import select
import subprocess
import sys
from pathlib import Path

import sweep_trials

from study import processes
from study.engine import local, places, ray, resources
from study.sweep.spec import load

PATIENCE = sweep_trials.PATIENCE


def run_sweep(spec, out, slots=None, trial=sweep_trials.quick, cells=None, **policy):
    """Run a sweep here; return the status."""
    places.write(spec, out)
    job = local.job_of(spec, cells or spec.cells, out, slots=slots, trial=trial, **policy)
    return local.run(job, resources.here())


def launch(file, out, trial, count=2, *engines):
    """Start a launcher."""
    arguments = [sys.executable, __file__, str(file), str(out), trial, str(count), *engines]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


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
    file, out, trial, slots, *engines = sys.argv[1:]
    spec, trial = load(Path(file)), getattr(sweep_trials, trial)
    if trial is sweep_trials.stubborn:
        processes.GRACE = 600  # what ends before is ended by the second interrupt
    if engines == ["ray"]:
        places.write(spec, Path(out))
        sys.exit(ray.run(local.job_of(spec, spec.cells, Path(out), trial=trial), ray.Options(), None))
    code = run_sweep(spec, Path(out), int(slots), trial)
    heavy = {"torch", "wandb", "pytorch_lightning", "ray", "submitit"} & set(sys.modules)
    print("heavy:", *sorted(heavy), flush=True)
    sys.exit(code)
