"""A launcher of agents as a process of its own, `agents_launch.py FILE OUT N`, and its agents, which ask more often."""

import sys
from pathlib import Path

from study.engine import local, places, resources, wandb_agents
from study.sweep.spec import load

CLIENT = "from wandb.wandb_agent import Agent\nAgent.POLL_INTERVAL = 0.2\n" + wandb_agents.AGENT
"""The `wandb` command, whose agent asks more often."""

if __name__ == "__main__":
    import agent_trial

    wandb_agents.AGENT = CLIENT
    file, out, slots = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    spec = load(file)
    places.write(spec, out)
    job = local.job_of(spec, spec.cells, out, slots=slots, trial=agent_trial.local)
    sys.exit(wandb_agents.run(spec, job, resources.here()))
