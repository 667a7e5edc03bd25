"""The process that trials are forked from: heavy libraries imported once, CUDA untouched.

A new Python needs seconds to import torch, Lightning and the W&B client; a fork of one that has them needs none.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from multiprocessing.process import BaseProcess

from study.sweep.trial import Job, Trial, main, train

PRELOAD = ("torch", "pytorch_lightning", "wandb", "study.pruning.run")
"""Modules of a real trial. Named, not imported: the launcher itself stays light."""
BLOCKED = (signal.SIGINT, signal.SIGUSR2) if hasattr(signal, "SIGUSR2") else (signal.SIGINT,)
"""Signals for the launcher alone. SLURM sends SIGUSR2, the warning before a time limit, to every process of a job."""
LONGEST = 60
"""Bytes of the folder in which the server's socket is made; its whole name may have 107."""


def start(trial: Trial, threads: int) -> None:
    """Start the process that trials are forked from, with the environment that its imports read."""
    settings = {
        "OMP_NUM_THREADS": str(threads),  # for numpy's share; torch is told by the trial
        "PYTHONSAFEPATH": "1",  # a study.py in the working directory is not this package
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking for GPUs must not initialise CUDA before the fork
    }
    from multiprocessing import forkserver, resource_tracker  # here, since Windows has none

    modules = PRELOAD if trial is train else (trial.__module__,)
    before = dict(os.environ)
    os.environ.update({name: value for name, value in settings.items() if name not in before})
    os.environ["MPLBACKEND"] = "agg"  # that of a notebook is no module here, and importing it fails
    os.environ.pop("WANDB_SERVICE", None)
    multiprocessing.get_context("forkserver").set_forkserver_preload([*modules, "study.sweep.trial"])
    resource_tracker.ensure_running()  # its start unblocks SIGINT, so it comes first
    # Blocked, not handled: the server inherits it, and Ctrl-C while it imports would print a traceback.
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    folder = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > LONGEST:
        tempfile.tempdir = "/tmp"
    try:
        forkserver.ensure_running()
    finally:
        tempfile.tempdir = folder
        os.environ.clear()
        os.environ.update(before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)


def spawn(trial: Trial, job: Job) -> BaseProcess:
    """A trial's process. The server may have been killed since the last one: asking again starts another."""
    context = multiprocessing.get_context("forkserver")
    for attempt in range(3):
        process = context.Process(target=main, args=(trial, job), name=job.folder.name)
        try:
            process.start()
        except (OSError, EOFError):
            if attempt == 2:
                raise
            time.sleep(0.5)
        else:
            return process
    raise AssertionError("unreachable")
