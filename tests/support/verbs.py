"""Verbs of the command line, called in this process."""

import pytest

from study.__main__ import main


@pytest.fixture
def printed(capsys):
    """Function that runs a verb, whose status is 0, and returns what it prints."""

    def run(*words):
        capsys.readouterr()
        assert main([*map(str, words)]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(capsys):
    """Function that runs a verb, which refuses with status 2, and returns its one line."""

    def run(*words):
        capsys.readouterr()
        assert main([*map(str, words)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run
