"""Time and memory of the attention mechanisms, as ratios inside one run.

    python benchmarks/attention.py                 # prints the tables
    python benchmarks/attention.py --write         # and writes them: benchmarks/attention.json, benchmarks/README.md

B batch · H heads · L queries · S slots · D width · A additive width.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from diagnostics import diagnostics
from measure import Table, Work, machine, markdown, peak_memory, relative_times
from mechanisms import mechanisms
from page import write
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import MultiHeadAttention, View
from study.attention.scores import Additive
from study.config import AttentionConfig as Config
from study.config.mechanisms import REACH
from study.models import initialise
from study.training.machine import keep_memory

MEGABYTE = 2**20
TOKENS, WIDTH = 2048, 64
"""B·S of the tables of one site, and the width of their states."""


def additive(rounds: int) -> Table:
    """Additive as it is computed against a layer on the concatenation of every query with every key."""
    sizes = {"batch": 32, "length": 64, "slots": 64, "width": 512}
    return Table(
        "additive",
        "Additive against the concatenating form",
        "v·tanh(W [q; k]), forward and backward, B 32, L 64, S 64, D = A = 512: one linear layer on the concatenation "
        "of every query with every key; each half of W applied once, and tanh computed in blocks.",
        ("form", "ms", "time ×", "peak MB", "memory ×"),
        list(compared(additive_forms(**sizes), rounds)),
    )


def additive_forms(batch: int, length: int, slots: int, width: int) -> dict[str, Work]:
    """Both forms with the same weights and inputs; their scores are compared first."""
    ours, concatenating = Additive(1, width, width, additive_width=width), Concatenating(width)
    initialise(ours, 1)
    concatenating.load_state_dict({name: value[0] for name, value in ours.state_dict().items()})
    query, keys = (torch.randn(batch, 1, n, width, requires_grad=True) for n in (length, slots))
    view = View(torch.ones(batch, 1, 1, slots, dtype=torch.bool), torch.arange(length))

    def factored() -> Tensor:
        return ours(ours.prepare_query(query), ours.prepare(keys), view)

    def naive() -> Tensor:
        return concatenating(query[:, 0], keys[:, 0])[:, None]

    torch.testing.assert_close(factored(), naive(), rtol=1e-3, atol=1e-4)
    return {"concatenating": gradients(naive), "W_q q + W_k k": gradients(factored)}


class Concatenating(nn.Module):
    """The naive form: [B, L, D] and [B, S, D] → [B, L, S]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, 2 * width))
        self.vector = nn.Parameter(torch.empty(width))

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        length, slots = query.shape[1], keys.shape[1]
        both = torch.cat(
            [query[:, :, None].expand(-1, -1, slots, -1), keys[:, None].expand(-1, length, -1, -1)], dim=-1
        )
        return torch.tanh(F.linear(both, self.weight)) @ self.vector


def kernels(rounds: int) -> Table:
    """Torch's fused kernel against the written-out path of the same site."""
    rows: list[list[str | float | None]] = []
    for slots in (16, 64, 256):
        works = {"explicit": site(slots, explicit=True), "fused": site(slots)}
        rows += [[slots, *row] for row in compared(works, rounds)]
    return Table(
        "kernels",
        "Fused against explicit dot product",
        f"One self-attention site, forward and backward, projections and output included. {SIZES} The explicit path "
        "is what a tap (diagnostics, alignment) sees.",
        ("S", "path", "ms", "time ×", "peak MB", "memory ×"),
        rows,
    )


SIZES = f"Width {WIDTH}, 4 heads, L = S, {TOKENS} tokens in sentences of S. Ratios to the first of each S."


def heads(rounds: int) -> Table:
    """One head against many, of a fixed total width."""
    rows: list[list[str | float | None]] = []
    for slots in (16, 64, 256):
        paths = {
            explicit: list(compared({str(h): site(slots, explicit, heads=h) for h in (1, 2, 4, 8, 16)}, rounds))
            for explicit in (False, True)
        }
        rows += [[slots, int(str(f[0])), *f[1:], *e[1:]] for f, e in zip(paths[False], paths[True], strict=True)]
    cells = ("ms", "time ×", "peak MB", "memory ×")
    return Table(
        "heads",
        "Many heads against one",
        f"One self-attention site of width 64 whatever H, so K = V = 64/H, forward and backward: torch's fused kernel, "
        f"and the explicit path, which holds H maps of L·S weights. {TOKENS} tokens in sentences of S.",
        ("S", "H", *(f"fused {cell}" for cell in cells), *(f"explicit {cell}" for cell in cells)),
        rows,
    )


def reaches(rounds: int) -> Table:
    """Local and hard attention against global; a window looked up against the rest hidden."""
    rows: list[list[str | float | None]] = []
    for score in ("dot", "additive"):
        for slots in (16, 32, 64, 128, 256):
            works = {"global": site(slots, score=score)}
            for reach in REACH.taking("window"):
                works[f"{reach}, hidden"] = site(slots, score=score, reach=reach, worth=math.inf)
                if slots > 10:
                    works[f"{reach}, looked up"] = site(slots, score=score, reach=reach, worth=1.0)
            works["hard"] = site(slots, score=score, reach="hard")
            rows += [[score, slots, *row] for row in compared(works, rounds)]
    return Table(
        "reaches",
        "Local and hard against global",
        "One site, forward and backward, window 4 (9 slots). *Hidden*: all scores are computed and those beyond the "
        f"window masked. *Looked up*: the window's slots are gathered first. {SIZES} The model looks up from S = "
        f"{worth(score='additive'):g} windows on (additive, concat), {worth(score='dot', reach='local_p'):g} (scores "
        f"that are a product) or {worth(score='dot', reach='local_m'):g} (where torch's fused kernel takes a mask), "
        "and hides below.",
        ("score", "S", "reach", "ms", "time ×", "peak MB", "memory ×"),
        rows,
    )


def worth(**fields: Any) -> float:
    """S ÷ window size from which a site gathers its window."""
    return _site(**fields).gather_from


def site(
    slots: int,
    explicit: bool = False,
    worth: float | None = None,
    width: int = WIDTH,
    training: bool = True,
    **fields: Any,
) -> Work:
    """Forward and backward of one self-attention site over sentences of `slots` tokens, or forward alone."""
    attention = _site(width, **fields)
    if explicit:
        attention.tap = lambda seen: None
    if worth is not None:
        attention.gather_from = worth
    batch = TOKENS // slots
    states = torch.randn(batch, slots, width, requires_grad=True)
    mask = torch.ones(batch, slots, dtype=torch.bool)
    view = View(mask[:, None, None], torch.arange(slots))

    def attend() -> Tensor:
        context, terms = attention(states, attention.remember(states, mask), view)
        return context if terms.log_prob is None else context.sum() + terms.log_prob.sum()

    return gradients(attend) if training else inferred(attention, attend)


def inferred(attention: MultiHeadAttention, forward: Callable[[], Tensor]) -> Work:
    """Forward as when translating: nothing is sampled, and no gradient is asked for."""
    attention.eval()

    def work() -> None:
        with torch.inference_mode():
            forward()

    return work


def _site(width: int = WIDTH, **fields: Any) -> MultiHeadAttention:
    attention = MultiHeadAttention(Config(**{"heads": 4, **fields}).resolved(width, width), width, width)
    initialise(attention, 1)
    return attention


def gradients(forward: Callable[[], Tensor]) -> Work:
    """Forward, and backward to everything that has a gradient."""

    def work() -> None:
        out = forward()
        out.backward(torch.ones_like(out))

    return work


def compared(works: dict[str, Work], rounds: int) -> Iterator[list[str | float | None]]:
    """One row an alternative: its name, milliseconds, time ratio, peak in MB and memory ratio to the first."""
    times = relative_times(works, rounds)
    peaks = {name: peak_memory(work) / MEGABYTE for name, work in works.items()}
    base = next(iter(peaks.values()))
    for name, (milliseconds, ratio) in times.items():
        yield [name, milliseconds, ratio, peaks[name], peaks[name] / base]


TABLES: dict[Any, int] = {additive: 3, kernels: 20, heads: 20, reaches: 12, mechanisms: 15, diagnostics: 7}
"""Functions that make a table ↦ their rounds."""


def main() -> None:
    """Print the tables, or write them too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=[table.__name__ for table in TABLES], help="one table, not written")
    parser.add_argument("--write", action="store_true", help="write attention.json and README.md beside this file")
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write writes all tables; leave out --only")
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    keep_memory()
    document: dict[str, Any] = {**machine(), "tables": []}
    print(", ".join(f"{name} {value}" for name, value in document.items() if name != "tables"))
    for table, rounds in TABLES.items():
        if arguments.only in (None, table.__name__):
            start = time.perf_counter()
            document["tables"].append(table(rounds)._asdict())
            print(f"\n{markdown(Table(**document['tables'][-1]))}\n\n({time.perf_counter() - start:.0f} s)", flush=True)
    if arguments.write:
        write("attention", document)


if __name__ == "__main__":
    main()
