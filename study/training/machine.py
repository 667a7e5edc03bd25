"""The machine as a run uses it: device, threads and memory."""

from __future__ import annotations

import ctypes
import resource
import sys

import torch

from study.config import Experiment
from study.errors import InputError

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def device_for(experiment: Experiment) -> torch.device:
    """The device that the trainer section asks for.

    Raises:
        InputError: it asks for what the machine does not have.
    """
    cuda = torch.cuda.is_available()
    wanted = experiment.trainer.device
    if wanted == "cuda" and not cuda:
        raise InputError("trainer.device: cuda is asked for, and torch sees no GPU here; use cpu or auto")
    device = torch.device("cuda" if cuda and wanted != "cpu" else "cpu")
    _check_count(experiment.trainer.devices, torch.cuda.device_count() if cuda and wanted != "cpu" else 0, wanted)
    if experiment.training.precision == "bfloat16" and not (device.type == "cuda" and torch.cuda.is_bf16_supported()):
        raise InputError("training.precision: bfloat16 needs a GPU that has it, and there is none here; use float32")
    return device


def _check_count(devices: int, gpus: int, wanted: str) -> None:
    if 1 < devices > gpus and wanted != "cpu":
        raise InputError(
            f"trainer.devices: {devices} are asked for, and torch sees {gpus or 'no'} GPU{'s' * (gpus > 1)} here; "
            f"use {gpus or 1}{' or fewer' * (gpus > 1)}, or so many processes on the CPU with trainer.device cpu"
        )


def peak_memory(device: torch.device) -> int:
    """Bytes: of this process's GPU where there is one, else the largest resident set of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def keep_memory() -> None:
    """Make glibc's allocator serve every block from the heap, and never give the heap back. Without glibc, nothing.

    A training step frees and takes the same hundreds of megabytes. By default every block above 32 MB is mapped,
    zeroed page by page and unmapped again at each use, which cost a third of a step with a vocabulary of 8,000
    (`benchmarks/`).
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    except (OSError, AttributeError):
        pass
