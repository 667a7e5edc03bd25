"""A launcher of agents as a process of its own, `agents_launch.py FILE OUT N`, and its agents, which ask more often."""

import sys
import threading
import time
from pathlib import Path

from study.sweep.engines import wandb as agents
from study.sweep.spec import load


def listen(out):
    """Lose patience once the test says so: an agent needs some seconds to begin."""
    while not (out / "impatient").exists():
        time.sleep(0.1)
    agents.IDLE = 0.0


if __name__ == "__main__":
    if sys.argv[1] == "agent":
        from wandb.wandb_agent import Agent

        Agent.POLL_INTERVAL = 0.2
        agents.agent(sys.argv[2])
    else:
        import agent_trial  # the agents do without

        agents.AGENT = (__file__, "agent")
        agents.POLL = 0.2
        file, out, slots = sys.argv[1:]
        spec = load(Path(file))
        threading.Thread(target=listen, args=(Path(out),), daemon=True).start()
        sys.exit(agents.run_sweep(spec, Path(out), int(slots), trial=agent_trial.local))
