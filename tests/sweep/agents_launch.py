"""A launcher of agents as a process of its own, `agents_launch.py FILE OUT N`, and its agents, which ask more often."""

import sys
from pathlib import Path

from study.sweep import engine, places, resources, wandb_agents
from study.sweep.spec import load

AGENT = wandb_agents.agent


def quick_agent(*given):
    from wandb.wandb_agent import Agent

    Agent.POLL_INTERVAL = 0.2
    AGENT(*given)


if __name__ == "__main__":
    import agent_trial  # the agents do without

    wandb_agents.agent, wandb_agents.POLL = quick_agent, 0.2
    file, out, slots = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    spec = load(file)
    places.write(spec, out)
    job = engine.job_of(spec, spec.cells, out, slots=slots, trial=agent_trial.local)
    sys.exit(wandb_agents.run(spec, job, resources.here()))
