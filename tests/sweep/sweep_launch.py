"""A launcher as a process of its own: `python sweep_launch.py FILE OUT TRIAL SLOTS`."""

import subprocess
import sys
from pathlib import Path

import sweep_trials

from study.sweep import local
from study.sweep.spec import load


def launch(file, out, trial, count=2):
    """Start one."""
    arguments = [sys.executable, __file__, str(file), str(out), trial, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


if __name__ == "__main__":
    file, out, trial, slots = sys.argv[1:]
    if trial == "stubborn":
        local.GRACE = 600  # what ends before is ended by the second interrupt
    code = local.run_sweep(load(Path(file)), Path(out), int(slots), trial=getattr(sweep_trials, trial))
    heavy = {"torch", "wandb", "pytorch_lightning"} & set(sys.modules)
    print("heavy:", *sorted(heavy), flush=True)
    sys.exit(code)
