"""Every field of an experiment as a flag. Its text is checked by `experiment_from`, as that of a file is."""

from __future__ import annotations

import argparse
from typing import Any

from study.commands.options import Parser
from study.config.fields import declared, is_of_a_site, rows
from study.config.sites import RecurrentSites, TransformerSites

SITES = (
    "--model.attention.FIELD sets a field at every site of the model, --model.attention.SITE.FIELD at one: cross, or "
    "in the transformer also encoder_self or decoder_self. score, scale, weights, combine and reach also take a class "
    "of your own: FILE.py or FILE.py:CLASS. Defaults: "
)


def add_fields(parser: Parser) -> None:
    """Add a flag for every field. The help omits those of single sites."""
    groups: dict[str, Any] = {}
    for row in rows():
        name, section = row["field"], row["field"].rpartition(".")[0] or "experiment"
        if section not in groups:
            groups[section] = parser.add_argument_group(section, _sites() if section == "model.attention" else None)
        values = f"{row['values']}. " if row["values"] else ""
        only = f" [{row['of']}]" if row["of"] else ""
        default = "" if row["default"].startswith(("none", "derived")) else f" (default: {row['default']})"
        text = f"{values}{row['meaning']}{only}{default}".replace("%", "%%")
        groups[section].add_argument(f"--{name}", dest=name, default=argparse.SUPPRESS, metavar="…", help=text)
    for name in filter(is_of_a_site, declared()):
        parser.add_argument(f"--{name}", dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def given(args: argparse.Namespace) -> dict[str, str]:
    """Return the fields that were given, flat."""
    return {name: value for name, value in vars(args).items() if name in declared()}


def _sites() -> str:
    bases = (f"{', '.join(f'{f} {v}' for f, v in sites.BASE.items())}" for sites in (RecurrentSites, TransformerSites))
    return SITES + " in the recurrent family; ".join(bases) + " in the transformer."
