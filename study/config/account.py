"""Whether this machine has a key for W&B: without one, runs are kept offline."""

from __future__ import annotations

import netrc
import os
from urllib.parse import urlparse


def signed_in() -> bool:
    """Whether there is a key, in the environment or left by `wandb login`."""
    return bool(os.environ.get("WANDB_API_KEY")) or _stored_key()


def _stored_key() -> bool:
    """Asking wandb itself would ask the user, or the network."""
    host = urlparse(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
