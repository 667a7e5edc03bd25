"""The exception that a user's mistake raises, the exit statuses of the command line, and how to install an extra."""

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 + SIGINT."""
BROKEN = 70
"""Exit status of an error of the program itself."""
UNWRITTEN = 74
"""Exit status if standard output, or the folder of a run, cannot be written."""
BUSY = 75
"""Exit status if another process has the run."""

INSTALL = "Install the extra {0}: `pip install -e '.[{0}]'` in a checkout, `pip install 'FILE.whl[{0}]'` elsewhere."
"""Remedy where a package is missing; the extra that brings it goes between the brackets."""

EXIT_STATUS = {
    0: "done",
    1: "a run failed or diverged, or a check found a difference",
    2: "wrong input",
    BROKEN: "error of the program itself",
    UNWRITTEN: "standard output cannot be written",
    BUSY: "another process has this run",
    INTERRUPTED: "interrupted with Ctrl-C, the same command continues",
    143: "ended by SIGTERM, the same command continues",
}
"""Exit status of every verb ↦ its meaning."""


def shown(text: str) -> str:
    """Return a text for a terminal: control characters, which could change what it shows, are escaped."""
    return "".join(f"\\x{ord(c):02x}" if ord(c) < 160 and not c.isprintable() and c not in "\n\t" else c for c in text)


class InputError(Exception):
    """Wrong input from the user. The message is one line: `field: expected X, got Y.`, then the remedy."""


class BusyError(InputError):
    """Another process has the run that was asked for."""
