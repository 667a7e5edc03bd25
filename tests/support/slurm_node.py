"""A SLURM cluster of one node on this machine, in a folder of its own: munged, slurmctld and slurmd as processes."""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=10
OverTimeLimit=0
MinJobAge=300
SchedulerParameters=sched_interval=2,batch_sched_delay=1
NodeName={host} NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def installed():
    """Return True if SLURM can be started here: it and munge are installed, and this is root, who may be anybody."""
    path = f"{os.environ['PATH']}{os.pathsep}/usr/sbin"
    return os.geteuid() == 0 and all(shutil.which(name, path=path) for name in DAEMONS)


def _port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Node:
    """A cluster of one node, of this machine's cores. `environment` lets sbatch and the others find it."""

    def __init__(self, folder):
        self.folder = folder
        host = socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        self.config = folder / "slurm.conf"
        ports = (_port(), _port())
        self.config.write_text(CONFIG.format(host=host, folder=folder, ports=ports, cpus=os.cpu_count()))
        path = f"{os.environ['PATH']}{os.pathsep}/usr/sbin"
        self.environment = {"SLURM_CONF": str(self.config), "PATH": path}
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed", "log-file": "log"}
        munge = [f"--{option}={folder}/munge.{name}" for option, name in files.items()]
        self.processes = [self._start("munged", "--foreground", "--force", *munge)]
        self.until(lambda: (folder / "munge.socket").exists())
        self.processes += [self._start("slurmctld", "-D", "-i"), self._start("slurmd", "-D", "-N", host)]
        self.until(lambda: "idle" in self.call("sinfo", "--noheader", "--format=%t", check=False))

    def _start(self, *command):
        with (self.folder / f"{command[0]}.out").open("wb") as log:
            environment = os.environ | self.environment
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def until(self, ready, seconds=90):
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.log"))
                raise RuntimeError(f"not so after {seconds:.0f} s\n{logs}")
            time.sleep(0.1)

    def call(self, *command, check=True):
        """Run a command of SLURM and return what it prints."""
        environment = os.environ | self.environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=check).stdout

    def stop(self):
        """End every job, then the daemons."""
        with suppress(OSError, subprocess.SubprocessError):
            self.call("scancel", "--user=root", "--signal=KILL", "--full", check=False)
            self.call("scancel", "--user=root", check=False)
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
