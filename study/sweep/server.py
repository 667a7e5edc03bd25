"""The process that trials are forked from: heavy libraries imported once, CUDA untouched.

A new Python needs seconds to import torch, Lightning and the W&B client; a fork of one that has them needs none.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess

from study.sweep.trial import Attempt, Trial, main, train

PRELOAD = ("torch", "pytorch_lightning", "wandb", "study.pruning.run")
"""Modules of a real trial. Named, not imported: the launcher itself stays light."""
BLOCKED = (signal.SIGINT, signal.SIGUSR2) if hasattr(signal, "SIGUSR2") else (signal.SIGINT,)
"""Signals for the launcher alone. SLURM sends SIGUSR2, the warning before a time limit, to every process of a job."""


def start(trial: Trial, threads: int) -> None:
    """Start the process that trials are forked from, with the environment that its imports read."""
    from multiprocessing import forkserver, resource_tracker  # here, since Windows has none

    settings = {
        "OMP_NUM_THREADS": str(threads),  # for numpy's share; torch is told by the trial
        "PYTHONSAFEPATH": "1",  # a study.py in the working directory is not this package
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking for GPUs must not initialise CUDA before the fork
    }
    modules = PRELOAD if trial is train else (trial.__module__,)
    before = dict(os.environ)
    os.environ.update({name: value for name, value in settings.items() if name not in before})
    os.environ.pop("WANDB_SERVICE", None)
    multiprocessing.get_context("forkserver").set_forkserver_preload([*modules, "study.sweep.trial"])
    resource_tracker.ensure_running()  # its start unblocks SIGINT, so it comes first
    # Blocked, not handled: the server inherits it, and Ctrl-C while it imports would print a traceback.
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)


def spawn(trial: Trial, attempt: Attempt) -> BaseProcess:
    """Start a trial's process. The server may have been killed since the last one: asking again starts another."""
    context = multiprocessing.get_context("forkserver")
    for left in (2, 1, 0):
        process = context.Process(target=main, args=(trial, attempt), name=attempt.folder.name)
        try:
            process.start()
            break
        except (OSError, EOFError):
            if not left:
                raise
            time.sleep(0.5)
    return process
