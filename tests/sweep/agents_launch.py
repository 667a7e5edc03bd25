"""A launcher of agents as a process of its own, `agents_launch.py FILE OUT N`, and its agents, which ask more often."""

import sys
import threading
import time
from pathlib import Path

from study.sweep import engine, places, resources, wandb_agents
from study.sweep.spec import load

AGENT = wandb_agents.agent


def quick_agent(*given):
    from wandb.wandb_agent import Agent

    Agent.POLL_INTERVAL = 0.2
    AGENT(*given)


def listen(out):
    """Lose patience once the test says so: an agent needs some seconds to begin."""
    while not (out / "impatient").exists():
        time.sleep(0.1)
    wandb_agents.IDLE = 0.0


if __name__ == "__main__":
    import agent_trial  # the agents do without

    wandb_agents.agent, wandb_agents.POLL = quick_agent, 0.2
    file, out, slots = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    spec = load(file)
    places.write(spec, out)
    job = engine.job_of(spec, spec.cells, out, slots=slots, trial=agent_trial.local)
    threading.Thread(target=listen, args=(out,), daemon=True).start()
    sys.exit(wandb_agents.run(spec, job, resources.here()))
