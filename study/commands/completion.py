"""`study completion SHELL`: a completion script for verbs, flags and their values."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from study.commands.options import Parser

DESCRIPTION = """\
Print a completion script for verbs, flags and their values. Load it once per shell:
  bash   eval "$(study completion bash)"                        in ~/.bashrc
  zsh    study completion zsh > "${fpath[1]}/_study"            once
  fish   study completion fish > ~/.config/fish/completions/study.fish
"""
SHELLS = ("bash", "zsh", "fish")


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: an unknown shell.
    """
    args = _parser().parse_args(argv)
    import shtab

    print(shtab.complete(command_line(), args.shell))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study completion", description=DESCRIPTION)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return parser


def command_line() -> argparse.ArgumentParser:
    """Return one parser of all verbs."""
    from study.commands import VERBS

    whole = argparse.ArgumentParser(prog="study")
    verbs = whole.add_subparsers(dest="verb")
    for verb, line in VERBS.items():
        own = argparse.ArgumentParser(add_help=False) if verb == "help" else _of(verb)
        for action in own._actions:  # pydantic-settings names the values of a flag in its metavar
            if isinstance(action.metavar, str) and action.metavar.startswith("{"):
                action.choices = action.metavar.strip("{}").split(",")
        verbs.add_parser(verb, parents=[own], conflict_handler="resolve", help=line, add_help=False)
    return whole


def _of(verb: str) -> argparse.ArgumentParser:
    from study.commands import flags

    module = importlib.import_module(f"study.commands.{verb}")
    if hasattr(module, "EXTRA"):
        return flags.parser(module.HELP, module.EXTRA, verb)
    parser: argparse.ArgumentParser = module._parser()
    return parser
