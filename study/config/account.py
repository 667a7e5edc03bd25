"""Check for W&B credentials on this machine. Without them, runs stay offline."""

PROJECT = "attention-ablation"
"""W&B project of all runs, unless another is asked for."""
OF_A_SWEEP = ("WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH")
"""Environment variables of W&B that say which trial of which server's sweep a run is."""
OF_A_PROCESS = ("WANDB_SERVICE", "WANDB_RUN_ID", "WANDB_NAME", *OF_A_SWEEP)
"""Those that belong to one process and must not reach the processes that it starts."""
OF_A_RUN = ("WANDB_RUN_ID", "WANDB_NAME", *OF_A_SWEEP, "WANDB_RUN_GROUP", "WANDB_TAGS")
"""Those that name a run and what it belongs to."""


def signed_in() -> bool:
    """Return True if W&B finds credentials for its host. Uses neither a prompt nor the network.

    Raises:
        Exception: W&B refuses what the environment, or a settings file of the user, says to it.
    """
    import wandb  # here, since all but tracking does without it

    wandb.setup(wandb.Settings(silent=True))  # else signing in prints the user's name, which it asks the network for
    return wandb.login(prompt=False, verify=False)
