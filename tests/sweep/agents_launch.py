"""A launcher of agents as a process of its own, `agents_launch.py FILE OUT N`, and its agents, which ask more often."""

import sys
from pathlib import Path

from study.sweep import agents
from study.sweep.spec import load

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
        sys.exit(agents.run_sweep(spec, Path(out), int(slots), trial=agent_trial.local, preload=("agent_trial",)))
