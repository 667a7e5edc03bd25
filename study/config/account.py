"""Check for W&B credentials on this machine. Without them, runs stay offline."""

from __future__ import annotations

import os
import urllib.request

PROJECT = "attention-ablation"
"""W&B project of all runs, unless another is asked for."""
OF_A_SWEEP = ("WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH")
"""Environment variables of W&B that say which trial of which server's sweep a run is."""
OF_A_PROCESS = ("WANDB_SERVICE", "WANDB_RUN_ID", *OF_A_SWEEP)
"""Those that belong to one process and must not reach the processes that it starts."""
OF_A_RUN = ("WANDB_RUN_ID", *OF_A_SWEEP, "WANDB_RUN_GROUP", "WANDB_TAGS")
"""Those that name a run and what it belongs to."""


def project_address() -> str | None:
    """Return the address of the project that runs go to if W&B is to be online; None if it cannot be asked."""
    if os.environ.get("WANDB_MODE") != "online":
        return None
    try:
        import wandb

        if not signed_in():
            return None
        host = str(wandb.setup().settings.base_url)
        urllib.request.urlopen(host, timeout=5).close()  # the client itself would try for minutes
        entity = os.environ.get("WANDB_ENTITY") or wandb.Api().default_entity
        return f"{wandb.setup().settings.app_url}/{entity}/{os.environ.get('WANDB_PROJECT') or PROJECT}"
    except Exception:  # each run says what is wrong
        return None


def signed_in() -> bool:
    """Return True if W&B finds credentials for its host. Uses neither a prompt nor the network.

    Raises:
        Exception: W&B refuses what the environment, or a settings file of the user, says to it.
    """
    import wandb  # here, since all but tracking does without it

    wandb.setup(wandb.Settings(silent=True))  # else signing in prints the user's name, which it asks the network for
    return wandb.login(prompt=False, verify=False)
