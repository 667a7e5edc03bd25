"""A terminal of a width, and what a command prints there."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios


def study_in(columns, *words, **options):
    """Run a verb in a terminal; return its status and its text without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    options["env"] = {**(options.get("env") or os.environ), "TERM": "xterm"}
    options["env"].pop("COLUMNS", None)
    command = [sys.executable, "-P", "-m", "study", *map(str, words)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True, **options)
    os.close(theirs)
    printed = b""
    with contextlib.suppress(OSError):  # EIO when the last process of the terminal has gone
        while part := os.read(ours, 1 << 16):
            printed += part
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed.decode()).replace("\r\n", "\n")
    return process.wait(), text
