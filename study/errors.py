"""The one exception that a user's mistake raises: the command line prints it as one line and exits with 2."""


class InputError(Exception):
    """Something the user gave is wrong. The message says what, what was expected and how to mend it, in one line."""
