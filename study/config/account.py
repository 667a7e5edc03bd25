"""Check for W&B credentials on this machine. Without them, runs stay offline."""

from __future__ import annotations


def signed_in() -> bool:
    """Return True if W&B finds credentials for its host. Uses neither a prompt nor the network.

    Raises:
        Exception: W&B refuses what the environment, or a settings file of the user, says to it.
    """
    import wandb  # here, since reports do without it

    wandb.setup(wandb.Settings(silent=True))  # else signing in prints the user's name, which it asks the network for
    return wandb.login(prompt=False, verify=False)
