"""List of the corpora: a new one is one more line here."""

from typing import Annotated, get_args

from pydantic import Field

from study.corpora.corpus import Section
from study.corpora.grammar import Grammar
from study.corpora.multi30k import Multi30k
from study.corpora.parallel import Files
from study.corpora.probes.lookup import Graph, MultiLookup, OneSpace
from study.corpora.probes.order import Copy, CopyFar, Reverse, Sort

Data = Annotated[
    Grammar | Multi30k | Files | Copy | Reverse | Sort | CopyFar | Graph | MultiLookup | OneSpace,
    Field(discriminator="name"),
]

KINDS: dict[str, type[Section]] = {kind.model_fields["name"].default: kind for kind in get_args(get_args(Data)[0])}
"""Name ↦ class of its section."""
