"""Whether this machine is signed in to W&B: without that, runs are kept offline."""

from __future__ import annotations


def signed_in() -> bool:
    """Whether W&B finds credentials for its host, wherever it keeps them. Asks neither the user nor the network.

    Raises:
        Exception: W&B refuses what the environment, or a settings file of the user, says to it.
    """
    import wandb  # here, since reports do without it

    wandb.setup(wandb.Settings(silent=True))  # else signing in prints the user's name, which it asks the network for
    return wandb.login(prompt=False, verify=False)
