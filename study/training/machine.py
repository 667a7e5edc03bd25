"""The machine as a run uses it (device, threads, memory), and the provenance of a run's numbers.

Provenance is device, commit and versions. It has no user, path or host name.
"""

import ctypes
import platform
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from study.config import Experiment
from study.errors import InputError
from study.folders import CHECKOUT
from study.store.records import Call, Provenance

PACKAGES = ("attention-ablation", "numpy", "pytorch-lightning", "sacrebleu", "sentencepiece", "torch", "wandb")
"""Packages that may change a number of a run, or what is recorded of it."""
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Parameters of glibc's `mallopt`."""


def device_for(experiment: Experiment) -> torch.device:
    """Return the device that the trainer section asks for.

    Raises:
        InputError: it asks for what the machine does not have.
    """
    wanted, devices = experiment.trainer.device, experiment.trainer.devices
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError("trainer.device: expected cpu or auto on a machine without a GPU, got cuda.")
    device = torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")
    gpus = torch.cuda.device_count() if device.type == "cuda" else 0
    if 1 < devices > gpus and wanted != "cpu":
        raise InputError(
            f"trainer.devices: expected at most {max(gpus, 1)} (GPUs of this machine: {gpus}), got {devices}. "
            "Use fewer, or as many processes on the CPU with trainer.device cpu."
        )
    if experiment.training.precision == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise InputError("training.precision: expected float32 on a GPU without bfloat16, got bfloat16. Use a CPU.")
    return device


def peak_memory(device: torch.device) -> int:
    """Return bytes: of this process's GPU where there is one, else its largest resident set."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    import resource  # here, since only Unix has it

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024  # macOS counts bytes, Linux kibibytes


def keep_memory() -> None:
    """Make glibc's allocator serve every block from the heap, and never give the heap back. Without glibc, nothing.

    A training step frees and takes the same hundreds of megabytes. By default every block above 32 MB is mapped,
    zeroed page by page and unmapped again at each use, which cost a third of a step with a vocabulary of 8,000
    (`benchmarks/`).
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def provenance(device: torch.device, devices: int, precision: str) -> Provenance:
    """Return the facts of this process, one of `devices`."""
    packages = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            packages[name] = version(name).partition("+")[0]
    commit, dirty = _git()
    on_cpu = device.type == "cpu"
    return Provenance(
        git_commit=commit,
        git_dirty=dirty,
        python=platform.python_version(),
        packages=packages,
        device=_cpu() if on_cpu else torch.cuda.get_device_name(),
        device_count=devices,
        instructions=torch.backends.cpu.get_cpu_capability() if on_cpu else None,
        threads=torch.get_num_threads(),
        precision=precision,
        deterministic=on_cpu and torch.get_num_threads() == 1,
        started_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def continued(made: Provenance, step: int, earlier: list[Call]) -> tuple[list[Call], Provenance]:
    """Return the calls that make a run, this one last, and its provenance, which holds them if they differ.

    Args:
        made: the facts of this call.
        step: the update from which it continues.
        earlier: the calls before it.
    """
    own = Call(from_step=step, **made.model_dump(include=set(Call.model_fields)))
    again = earlier and earlier[-1].model_copy(update={"from_step": step}) == own
    calls = earlier if again else [*earlier, own]
    if len(calls) == 1:
        return calls, made
    dirty = {call.git_dirty for call in calls}
    alike = len({(call.device, call.device_count, call.threads) for call in calls}) == 1
    several = {
        "calls": calls,
        "git_dirty": True if True in dirty else None if None in dirty else False,
        "deterministic": made.deterministic and alike,
    }
    return calls, made.model_copy(update=several)


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git() -> tuple[str | None, bool | None]:
    """Return the commit, and whether code, sweeps or lock differ from it; None outside a checkout."""
    found = []
    if not (CHECKOUT / ".git").exists():  # a folder above may be another repository
        return None, None
    for arguments in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", "study", "sweeps", "requirements.lock")):
        command = ["git", "-C", str(CHECKOUT), *arguments]
        try:
            found.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
        except (OSError, subprocess.CalledProcessError):
            return None, None
    return found[0], bool(found[1])
