"""Training speed of two families of the study against plain loops over the layers of torch, in one run.

Same sizes, batches, loss, optimiser, clipping and threads. The plain loop is what a tutorial writes; the study's side
is a Lightning run of the `Task` that `study train` uses, history and per-step seeding included, validation left out.
Segments of the two alternate, and times are processor time of all threads, so that other work on the machine counts
little.

    python benchmarks/throughput.py            # both sizes, one thread
    python benchmarks/throughput.py --threads 2
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterator, Sequence

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.positions import sinusoids
from study.config import experiment_from
from study.corpora import Pair
from study.models import build
from study.models.translator import PAD
from study.training.batches import Batch, Example, Steps
from study.training.machine import keep_memory
from study.training.task import DataModule, Task
from study.training.vocabulary import Words

SIZES = {
    "embedded": {"model.width": 64, "model.layers": 2, "training.batch_tokens": 2000},
    "Multi30k": {"model.width": 256, "model.layers": 3, "training.batch_tokens": 3000},
}
VOCABULARY = {"embedded": 300, "Multi30k": 4000}


class Plain(nn.Module):
    """Embeddings, sinusoids, `nn.Transformer` (pre-norm) and an output layer."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, feedforward: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.source = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.target = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            width, heads, layers, layers, feedforward, dropout, batch_first=True, norm_first=True
        )
        self.out = nn.Linear(width, vocabulary)

    def forward(self, batch: Batch) -> Tensor:
        padding = ~batch.mask
        length = batch.given.shape[1]
        causal = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        states = self.transformer(
            self._embed(self.source, batch.source),
            self._embed(self.target, batch.given),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return self.out(states)

    def _embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        x = embedding(tokens) * self.width**0.5
        return self.dropout(x + sinusoids(0, tokens.shape[1], self.width, tokens.device))


class PlainStack(nn.Module):
    """Embeddings, sinusoids, `nn.TransformerEncoder` (pre-norm) over source and target, and an output layer."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, feedforward: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.source = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.target = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(width, heads, feedforward, dropout, batch_first=True, norm_first=True)
        self.stack = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, batch: Batch) -> Tensor:
        count, length = batch.source.shape[1], batch.source.shape[1] + batch.given.shape[1]
        x = torch.cat([self.source(batch.source), self.target(batch.given)], 1) * self.width**0.5
        x = self.dropout(x + sinusoids(-count, length, self.width, x.device))
        causal = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        padding = torch.cat([~batch.mask, torch.zeros_like(batch.given, dtype=torch.bool)], 1)
        return self.out(self.stack(x, mask=causal, src_key_padding_mask=padding)[:, count:])


PLAIN = {"transformer": Plain, "decoder_only": PlainStack}


def plain_segment(
    model: nn.Module, optimiser: torch.optim.Optimizer, batches: Sequence[Batch], smoothing: float
) -> float:
    """Return the seconds of processor time for the updates of a hand-written loop."""
    start = time.process_time()
    for batch in batches:
        loss = F.cross_entropy(
            model(batch).flatten(0, 1), batch.wanted.flatten(), ignore_index=PAD, label_smoothing=smoothing
        )
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return time.process_time() - start


class Given(DataModule):
    """Given batches in place of those of a corpus."""

    def __init__(self, vocabulary: int, data: list[Example], batches: list[Batch]) -> None:
        pl.LightningDataModule.__init__(self)
        self.vocabulary = Words(json.dumps([str(token) for token in range(vocabulary)]).encode())
        self.train, self.valid, self.batches = data, data[:2], batches

    def train_dataloader(self) -> Iterator[Batch]:  # type: ignore[override]
        """An iterator: Lightning takes a bare list for a list of loaders."""
        return iter(self.batches)


class Alternate(pl.Callback):
    """Between two segments of the study's updates, a segment of the plain loop's."""

    def __init__(self, plain: Iterator[float], segment: int) -> None:
        self.plain, self.segment = plain, segment
        self.ours: list[float] = []
        self.theirs: list[float] = []

    def on_train_batch_start(self, trainer: pl.Trainer, *_: object) -> None:
        if trainer.global_step % self.segment == 0:
            if trainer.global_step:
                self.ours.append(time.process_time() - self.start)
            self.theirs.append(next(self.plain))
            self.start = time.process_time()


def compare(family: str, size: str, segments: int, segment: int) -> tuple[float, float, float]:
    """Return target tokens per processor second (ours, theirs), and the median over segments of ours / theirs."""
    sizes = {"model.family": family, "training.steps": segments * segment + 1} | SIZES[size]
    experiment = experiment_from(sizes)
    config, recipe, vocabulary = experiment.model, experiment.training, VOCABULARY[size]
    batches = random_batches(vocabulary, recipe.batch_tokens, segment)
    tokens = sum(int((batch.wanted != PAD).sum()) for batch in batches)
    plain = PLAIN[family](vocabulary, config.width, 4, config.layers, 4 * config.width, config.dropout)
    optimiser = torch.optim.Adam(plain.parameters(), recipe.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def theirs() -> Iterator[float]:
        while True:
            yield plain_segment(plain, optimiser, batches, recipe.label_smoothing)

    callback = Alternate(theirs(), segment)
    data = Given(vocabulary, random_examples(vocabulary, 40), batches * segments + batches[:1])
    task = Task(experiment, data, build(config, vocabulary, 1))
    pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=recipe.steps,
        max_epochs=-1,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
    ).fit(task, data)
    pairs = list(zip(callback.ours, callback.theirs, strict=False))[1:]  # the first segment warms up
    rates = [[tokens / seconds for seconds in side] for side in zip(*pairs, strict=True)]
    return (*(statistics.median(side) for side in rates), statistics.median(t / o for o, t in pairs))  # type: ignore[return-value]


def random_examples(vocabulary: int, count: int) -> list[Example]:
    """Sentences of 5 to 24 tokens."""
    draw = torch.Generator().manual_seed(0)

    def side() -> list[int]:
        length = int(torch.randint(5, 25, (), generator=draw))
        return torch.randint(4, vocabulary, (length,), generator=draw).tolist()

    return [Example(side(), side(), Pair("", "")) for _ in range(count)]


def random_batches(vocabulary: int, budget: int, count: int) -> list[Batch]:
    """Training batches as the study makes them."""
    steps = Steps(random_examples(vocabulary, 4000), budget, 0, 0, count)
    return list(steps)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--segments", type=int, default=6)
    parser.add_argument("--steps", type=int, default=12, help="updates per segment")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)
    keep_memory()
    print(f"torch {torch.__version__}, {arguments.threads} thread(s); target tokens per second of processor time")
    print(f"{'family':<12} {'size':<10} {'study':>9} {'plain':>9} {'ratio':>6}")
    for family, size in itertools.product(PLAIN, SIZES):
        ours, theirs, ratio = compare(family, size, arguments.segments, arguments.steps)
        print(f"{family:<12} {size:<10} {ours:9,.0f} {theirs:9,.0f} {ratio:6.3f}")


if __name__ == "__main__":
    main()
