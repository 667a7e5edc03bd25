"""Bad input by the thousand: values for every option of every verb, files for every reader, odd surroundings.

A case is a command line in a folder that `workplace` has made, perhaps after a change to its files.
`tests/bad_input.py` runs all of them, each in a process of its own; `tests/commands/test_bad_input.py` runs some.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from study.__main__ import VERBS, main

SENTENCE = "der Hund sieht die Katze ."
TINY = {
    "data.train_pairs": 40,
    "data.test_pairs": 8,
    "training.steps": 2,
    "training.warmup": 1,
    "training.validate_every": 2,
    "model.width": 8,
    "model.family": "transformer",
    "model.layers": 1,
    "decoding.beam": 1,
    "trainer.threads": 1,
    "trainer.device": "cpu",
}
"""An experiment of a second or two."""
SWEEP = """
name: tiny
description: Two seeds
method: grid
metric: {name: test/exact, goal: maximize}
command: ["${env}", "${interpreter}", "-P", "-m", "study", "train", "--overrides-json", "${args_json}"]
parameters:
  seed: {values: [1, 2]}
"""
PLACES = ("runs", "sweep.yaml", "config.yaml", "claims.yaml", "a.de", "a.en")


@dataclass(frozen=True)
class Case:
    """One call. `refused`: it has to end with status 2; None: any status of EXPECTED will do."""

    name: str
    argv: tuple[str, ...]
    refused: bool | None = None
    change: Callable[[Path], object] = lambda folder: None
    environment: dict[str, str | None] = field(default_factory=dict)


def files(folder: Path) -> None:
    """Make a sweep, a configuration, a file of claims and two sentences."""
    parameters = {**yaml.safe_load(SWEEP)["parameters"], **{name: {"value": value} for name, value in TINY.items()}}
    (folder / "sweep.yaml").write_text(SWEEP.partition("parameters:")[0] + yaml.safe_dump({"parameters": parameters}))
    (folder / "config.yaml").write_text(yaml.safe_dump(TINY))
    (folder / "claims.yaml").write_text("claims: []\n")
    (folder / "a.de").write_text(f"{SENTENCE}\n")
    (folder / "a.en").write_text("the dog sees the cat .\n")


def workplace(folder: Path) -> str:
    """The same with a trained run that the sweep declares; return the run's identity."""
    files(folder)
    with redirect_stdout(StringIO()):
        assert main(["train", "--config", str(folder / "config.yaml"), "--runs", str(folder / "runs")]) == 0
    (run,) = (path.parent.name for path in (folder / "runs").glob("*/record.json"))
    return run


def cases(run: str) -> Iterator[Case]:
    """Every case, given the identity of the workplace's run."""
    yield from options(run)
    yield from fields()
    yield from words(run)
    yield from documents()
    yield from overrides()
    yield from records_(run)
    yield from attention(run)
    yield from models(run)
    yield from texts(run)
    yield from leases(run)
    yield from corpora()
    yield from surroundings(run)


# Values

LONG = "a" * 300
PATHS = {
    "empty": "",
    "home": "~nosuchuser/x",
    "address": "https://example.org/runs",
    "name too long": LONG,
    "path too long": "x/" * 2500,
    "loop": "loop/x",
    "through a file": "a.de/x/y",
    "loop itself": "loop",
    "absent": "absent/x",
    "a folder": "runs",
    "a file": "a.de",
    "a pipe": "pipe",
    "null": "/dev/null",
    "zero": "/dev/zero",
    "full": "/dev/full",
    "proc": "/proc/version",
    "bytes": "binary",
    "nothing in it": "nothing",
    "line break": "a\nb",
    "not UTF-8": "a\udcff",
    "null byte": "a\0b",
}
NEVER = ("empty", "home", "address", "name too long", "path too long", "loop", "not UTF-8", "null byte")
"""Paths that no option takes."""
NUMBERS = {
    "Arabic digits": "٣",
    "wide digits": "３",
    "superscript": "²",
    "a word": "many",
    "no number": "nan",
    "infinite": "inf",
    "minus infinite": "-inf",
    "overflow": "1e999",
    "thirty digits": "9" * 30,
    "5,000 digits": "9" * 5000,
    "negative": "-1",
    "small negative": "-1e-3",
    "zero": "0",
    "fraction": "1.5",
    "hexadecimal": "0x10",
    "truth": "true",
    "none": "null",
    "empty": "",
    "blank": " ",
    "list": "[1]",
    "mapping": "{}",
    "quotes": "'\"",
    "billion": "1000000000",
    "large": "4294967296",
    "line break": "1\n2",
    "null byte": "1\0",
    "not UTF-8": "\udcff",
}
NO_NUMBER = ("Arabic digits", "wide digits", "superscript", "no number", "thirty digits", "5,000 digits", "null byte")
"""Texts that are no number of anything here."""


def before(folder: Path) -> None:
    """Files that the paths above name."""
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "nothing").write_bytes(b"")


def required(run: str) -> dict[str, list[str]]:
    """A verb ↦ the words with which it does something."""
    return {
        "train": ["--config", "config.yaml"],
        "explain": ["--config", "config.yaml"],
        "plan": ["sweep.yaml", "--margin", "1", "--sd", "1"],
        "sweep": ["sweep.yaml", "--dry-run"],
        "show": [run],
        "prune": [f"runs/{run}", "--question", "curve", "--out", "pruned"],
        "translate": [f"runs/{run}", SENTENCE],
        "compare": [f"runs/{run}", f"runs/{run}", SENTENCE],
        "align": [run, "--source", "a.de", "--target", "a.en", "--layer", "0"],
        "report": ["--sweep", "sweep.yaml", "--to", "report"],
        "claims": ["--runs", "runs"],
        "publish": ["sweep.yaml", "--results", "published"],
        "verify": ["--results", "published"],
        "reproduce": ["--results", "published"],
        "site": ["--runs", "runs", "--out", "site"],
    }


SLOW = ("reproduce", "verify")
"""Verbs that work on what is published: only their paths are tried."""


def flags(verb: str) -> list[str]:
    """The options of a verb, as its help lists them."""
    printed = StringIO()
    with redirect_stdout(printed):
        main([verb, "--help"])
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*\b(?![.\w])", printed.getvalue())) - {"--help"})


def options(run: str) -> Iterator[Case]:
    """Every option of every verb with every value, and twice."""
    given = required(run)
    for verb in VERBS:
        words = [verb, *given.get(verb, [])]
        for flag in flags(verb) if verb != "train" else ("--config", "--out", "--runs", "--preset", "--overrides-json"):
            rest = _without(words, flag if flag != "--serve" else "--runs")  # a server would not end
            for name, value in (PATHS | (NUMBERS if verb not in SLOW else {})).items():
                yield Case(f"{verb} {flag} {name}", (*rest, f"{flag}={value}"), None, before)
            yield Case(f"{verb} {flag} without a value", (*rest, flag), None, before)
            yield Case(f"{verb} {flag} twice", (*rest, f"{flag}=1", f"{flag}=2"), None, before)
        yield Case(f"{verb} with an unknown option", (*words, "--no-such-option"), True)
        yield Case(f"{verb} with a stray word", (*words, "stray", "words"), True)


def _without(words: list[str], flag: str) -> list[str]:
    if flag not in words:
        return words
    at = words.index(flag)
    return words[:at] + words[at + 2 :]


def fields() -> Iterator[Case]:
    """Every field of an experiment, with values that no number or name has."""
    from study.sweep.fields import _fields

    for name in _fields():
        for what, value in NUMBERS.items():
            argv = ("explain", "--config", "config.yaml", f"--{name}={value}")
            yield Case(f"--{name} {what}", argv, True if what in ("null byte", "not UTF-8") else None)


def words(run: str) -> Iterator[Case]:
    """The words that are no options."""
    for verb, rest in {
        "show": (),
        "prune": ("--out", "pruned"),
        "translate": (SENTENCE,),
        "align": ("--source", "a.de", "--target", "a.en", "--layer", "0"),
        "sweep": ("--status",),
        "publish": ("--results", "published"),
    }.items():
        for name, value in PATHS.items():
            yield Case(f"{verb} {name}", (verb, value, *rest), True if name in NEVER else None, before)
    for name, value in {
        "blank": " ",
        "control characters": "\x1b[31m\x07",
        "long": "der " * 20_000,
        "a long word": "x" * 100_000,
        "emoji": "👩‍👩‍👧‍👦 שלום مرحبا",
        "combining": "e" + "\u0301" * 1000,
        "line breaks": "der\n\n\rHund",
        "dollar": "$x^2$ \\frac{1}{2}",
    }.items():
        yield Case(f"translate a sentence: {name}", ("translate", f"runs/{run}", value), None)
    for verb in ("", "-x", "--", "trains", "../train", "train\0", "\udcff", "__init__", "flags"):
        yield Case(f"verb {verb!r}", (verb,), True)


# Documents in YAML and JSON


def _bomb(key: str, inner: str) -> str:
    lines = [f"{key}0: &a0 {inner}"]
    for i in range(1, 11):
        body = ", ".join([f"*a{i - 1}"] * 10)
        lines.append(f"{key}{i}: &a{i} {{<<: [{body}]}}" if inner.startswith("{") else f"{key}{i}: &a{i} [{body}]")
    return "\n".join(lines)


DOCUMENTS: dict[str, str | bytes] = {
    "empty": "",
    "comment": "# nothing",
    "scalar": "1",
    "list": "- 1",
    "null": "~",
    "two documents": "a: 1\n---\nb: 2",
    "tab": "a:\n\tb: 1",
    "bytes": bytes(range(256)),
    "UTF-16": "seed: 1".encode("utf-16"),
    "latin": "out: Läufe".encode("latin-1"),
    "null byte": "seed: 1\0",
    "control": "seed: \x01",
    "open": "a: [1",
    "deep lists": "a: " + "[" * 3000,
    "deep lists closed": "a: " + "[" * 500 + "]" * 500,
    "deep mappings": "".join(f"{' ' * i}a:\n" for i in range(500)),
    "bomb": _bomb("k", "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"),
    "bomb of merges": _bomb("k", "{x: 1}"),
    "ring": "a: &a [*a]",
    "ring of merges": "a: &a {<<: *a}",
    "undefined alias": "a: *b",
    "alias twice": "a: &a 1\nb: &a 2",
    "wide": "\n".join(f"k{i}: {i}" for i in range(30_000)),
    "python tag": "a: !!python/object/apply:os.system ['touch hacked']",
    "unknown tag": "a: !thing 1",
    **{
        f"tag {kind} {value!r}": f"seed: !!{kind} {value}"
        for kind in (
            "bool",
            "int",
            "float",
            "null",
            "timestamp",
            "binary",
            "set",
            "omap",
            "pairs",
            "seq",
            "map",
            "str",
            "merge",
            "value",
        )
        for value in ("x", "''", "[1]", "{a: 1}")
    },
    "long number": "seed: " + "1" * 5000,
    "long fraction": "seed: 0." + "1" * 5000,
    "octal": "seed: 010",
    "base 60": "seed: 1:30",
    "infinite": "model.penalty: .inf",
    "no number": "training.learning_rate: .nan",
    "key twice": "seed: 1\nseed: 2",
    "key twice nested": "model: {width: 8, width: 16}",
    "number as key": "1: 2",
    "null as key": "~: 2",
    "list as key": "[1]: 2",
    "mapping as key": "{a: 1}: 2",
    "merge of a scalar": "<<: 1",
    "empty section": "modle: {}",
    "unknown field": "modle.width: 8",
    "section as value": "model: 1",
    "value as section": "seed: {a: 1}",
    "dots": "a..b: 1",
    "empty key": "'': 1",
    "dot": ".: 1",
    "preset list": "preset: [a]",
    "preset mapping": "preset: {a: 1}",
    "arm list": "arm: [a]",
    "arm brackets": "arm: seed=" + "[" * 2000,
    "arm open quote": "arm: 'seed=\"1'",
    "arm empty": "arm: ''",
    "out empty": "out: ''",
    "out home": "out: ~nosuchuser/x",
    "out address": "out: https://example.org",
    "out null": 'out: "a\\0b"',
    "tags text": "tracking.tags: abc",
    "project slash": "tracking.project: a/b",
    "project long": f"tracking.project: {'p' * 200}",
    "project empty": "tracking.project: ''",
    "entity slash": "tracking.entity: a/b",
    "tag long": f"tracking.tags: [{'t' * 100}]",
    "tag empty": "tracking.tags: ['']",
    "layers": "model.layers: 10000000",
    "width": "model.width: 100000000",
    "pairs": "data.train_pairs: 4294967296",
    "steps": "training.steps: 99999999999999999999",
    "seed": "seed: 2147483648",
    "true": "seed: true",
    "date": "seed: 2026-01-01",
    "no date": "seed: 2026-13-45",
}
VALID = ("comment", "empty", "null", "arm empty", "width")


def documents() -> Iterator[Case]:
    """Each document as configuration, as sweep file, as part of one, as claims."""
    for name, text in DOCUMENTS.items():
        content = text if isinstance(text, bytes) else text.encode()
        refused = None if name in VALID or name.startswith("tag ") else True

        def whole(folder: Path, content: bytes = content) -> None:
            for path in ("odd.yaml", "claims.yaml"):
                (folder / path).write_bytes(content)

        def part(folder: Path, content: bytes = content) -> None:
            head = SWEEP.partition("parameters:")[0].encode()
            lines = content.split(b"\n")
            body = b"\n".join(b"  " + line for line in lines)
            (folder / "odd.yaml").write_bytes(head + b"parameters:\n  seed: {values: [1, 2]}\n" + body)
            value = b"\n".join(b"    " + line for line in lines)
            (folder / "value.yaml").write_bytes(head + b"parameters:\n  model.width:\n    values:\n" + value)

        yield Case(f"YAML {name}: --config", ("explain", "--config", "odd.yaml"), refused, whole)
        yield Case(f"YAML {name}: train", ("train", "--config", "odd.yaml"), refused, whole)
        yield Case(f"YAML {name}: sweep", ("sweep", "odd.yaml", "--dry-run"), True, whole)
        yield Case(f"YAML {name}: report", ("report", "--sweep", "odd.yaml"), True, whole)
        yield Case(f"YAML {name}: claims", ("claims", "--claims", "claims.yaml", "--runs", "runs"), None, whole)
        yield Case(f"YAML {name}: parameters", ("sweep", "odd.yaml", "--dry-run"), None, part)
        yield Case(f"YAML {name}: values", ("sweep", "value.yaml", "--status"), None, part)
    for name, text in {
        "10^9 cells": "seed: {values: [%s]}\n  data.seed: {values: [%s]}\n  model.width: {values: [%s]}",
        "line break in the name": 'seed: {values: [1, 2]}\nname: "a\\nb"%.0s%.0s%.0s',
        "blank in the name": "seed: {values: [1, 2]}\nname: 'a '%.0s%.0s%.0s",
        "path as the name": "seed: {values: [1, 2]}\nname: ../../x%.0s%.0s%.0s",
        "long name": f"seed: {{values: [1, 2]}}\nname: {'n' * 300}%.0s%.0s%.0s",
    }.items():
        many = ", ".join(map(str, range(1, 1001)))

        def grid(folder: Path, text: str = text % (many, many, many)) -> None:
            head = SWEEP.replace("name: tiny\n", "") if "\nname" in text else SWEEP
            (folder / "odd.yaml").write_text(head.partition("parameters:")[0] + "parameters:\n  " + text)

        yield Case(f"sweep of {name}", ("sweep", "odd.yaml", "--dry-run"), True, grid)


JSONS = {
    "empty": "",
    "not JSON": "{",
    "list": "[1]",
    "number": "1",
    "deep": '{"a":' * 5000 + "1" + "}" * 5000,
    "deep lists": '{"a":' + "[" * 5000 + "]" * 5000 + "}",
    "key twice": '{"seed": 1, "seed": 2}',
    "key twice nested": '{"model": {"width": 8, "width": 16}}',
    "dotted and nested": '{"model.width": 8, "model": {"width": 16}}',
    "NaN": '{"training.learning_rate": NaN}',
    "infinite": '{"training.learning_rate": Infinity}',
    "infinite penalty": '{"model.penalty": Infinity, "model.memory": "structured"}',
    "overflow": '{"training.learning_rate": 1e999}',
    "long number": '{"seed": ' + "1" * 5000 + "}",
    "empty section": '{"modle": {}}',
    "empty section in a section": '{"model": {"modle": {}}}',
    "empty key": '{"": 1}',
    "null byte": '{"out": "a\\u0000b"}',
    "surrogate": '{"out": "a\\ud800b"}',
    "surrogate as key": '{"\\ud800": 1}',
    "preset": '{"preset": ["a"]}',
    "arm": '{"arm": {"a": 1}}',
    "arm null": '{"arm": null}',
    "digits": '{"seed": "٣"}',
    "text for a number": '{"seed": " 1 "}',
    "BOM": "\ufeff{}",
}


def overrides() -> Iterator[Case]:
    """Each as --overrides-json."""
    for name, text in JSONS.items():
        refused = None if name in ("dotted and nested", "text for a number", "infinite penalty") else True
        for verb in ("train", "explain"):
            yield Case(f"JSON {name}: {verb}", (verb, "--config", "config.yaml", f"--overrides-json={text}"), refused)


# Damaged files

ODD: dict[str, Any] = {
    "null": None,
    "true": True,
    "text": "x",
    "path": "../../x",
    "empty text": "",
    "number": -1,
    "large": 10**30,
    "list": [],
    "list of lists": [[1]],
    "mapping": {},
    "markup": "<script>=cmd()|</script>\n| a |",
}


def _json(path: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        tree = json.loads((folder / path).read_text())
        change(tree)
        (folder / path).write_text(json.dumps(tree))

    return damage


def _leaves(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places in a tree: every key, and the first element of every list."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree[:1]) if isinstance(tree, list) else ()
    for key, value in inner:
        yield (*at, key)
        if len(at) < 3:
            yield from _leaves(value, (*at, key))


def _set(tree: Any, at: tuple[Any, ...], value: Any) -> None:
    for key in at[:-1]:
        tree = tree[key]
    tree[at[-1]] = value


RECORD = {
    "scores": [
        {"split": "test", "metric": "bleu", "value": 1.0, "hypotheses": "test.hyp.txt", "signature": "x", "n": 1}
    ],
    "config": {"data": {"name": 1}, "model": {"family": 1, "width": 8}, "training": {"steps": 2}, "seed": 1},
    "data": {"name": 1, "files": {"test": 1}},
    "model": {"parameters": 1},
    "resources": {"train_seconds": 1, "tokens_per_second": 1},
    "selection": {"rule": 1, "step": 1, "value": 1},
    "history": [{"step": 1, "valid_bleu": 1, "valid_loss": 1}],
    "diagnostics": {"cross": 1},
    "provenance": {"git_commit": 1, "started_utc": 1, "packages": {"torch": 1}},
    "wandb": 1,
    "id": 1,
    "status": 1,
    "seed": 1,
    "config_hash": 1,
    "schema_version": 1,
    "protocol": 1,
}
READERS = {
    "show": ("show", "RUN"),
    "png": ("show", "RUN", "--png", "x.png"),
    "status": ("sweep", "sweep.yaml", "--status"),
    "report": ("report", "--sweep", "sweep.yaml", "--to", "report"),
    "claims": ("claims", "--claims", "claims.yaml", "--runs", "runs"),
    "train": ("train", "--config", "config.yaml"),
}


def records_(run: str) -> Iterator[Case]:
    """A record with one field of another type or value, and files that are no records."""
    record = f"runs/{run}/record.json"
    for at, (name, value) in itertools.product(_leaves(RECORD), ODD.items()):

        def change(tree: Any, at: tuple[Any, ...] = at, value: Any = value) -> None:
            try:
                _set(tree, at, value)
            except (KeyError, IndexError, TypeError):
                tree[at[0]] = value

        for reader in ("show", "report") if len(at) > 1 else READERS:
            argv = tuple(run if word == "RUN" else word for word in READERS[reader])
            place = ".".join(map(str, at))
            yield Case(f"record {place} {name}: {reader}", argv, None, _json(record, change))
    for (name, content), (reader, words) in itertools.product(FILES.items(), READERS.items()):
        argv = tuple(run if word == "RUN" else word for word in words)
        yield Case(f"record is {name}: {reader}", argv, True, _put(record, content))


FILES: dict[str, bytes | str] = {
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "an empty mapping": b"{}",
    "bytes": bytes(range(256)),
    "deep": b"[" * 100_000,
    "a long number": b'{"seed": ' + b"1" * 5000 + b"}",
    "a folder": "folder",
    "a pipe": "pipe",
    "a loop": "loop",
    "zero": "zero",
}


def _put(path: str, content: bytes | str) -> Callable[[Path], None]:
    def put(folder: Path) -> None:
        target = folder / path
        if target.is_dir():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        match content:
            case "folder":
                target.mkdir()
            case "pipe":
                os.mkfifo(target)
            case "loop":
                target.symlink_to(target.name)
            case "zero":
                target.symlink_to("/dev/zero")
            case bytes():
                target.write_bytes(content)

    return put


def attention(run: str) -> Iterator[Case]:
    """The attention map beside a record, of other types and sizes."""
    path = f"runs/{run}/attention.json"
    whole = {
        "site": 1,
        "layer": 1,
        "head": 1,
        "source": [1],
        "target": [1],
        "weights": [[1]],
        "gold": [[1]],
        "text": {"source": 1},
    }
    values = ODD | {"links": [[1]], "far links": [[10**6, 0]], "text links": [["a", "b"]], "infinite": [[1e999]]}
    for at, (name, value) in itertools.product(_leaves(whole), values.items()):

        def change(tree: Any, at: tuple[Any, ...] = at, value: Any = value) -> None:
            try:
                _set(tree, at, value)
            except (KeyError, IndexError, TypeError):
                tree[at[0]] = value

        for rest in ((), ("--png", "x.png")):
            yield Case(f"map {at} {name} {rest}", ("show", run, *rest), None, _json(path, change))
    for name, content in FILES.items():
        yield Case(f"map is {name}", ("show", run), None if name == "a loop" else True, _put(path, content))


def models(run: str) -> Iterator[Case]:
    """model.pt and checkpoint.ckpt with bytes changed, cut and replaced."""
    path = f"runs/{run}/model.pt"
    draw = random.Random(1)
    for i in range(60):
        where, bit, count = draw.random(), 1 << draw.randrange(8), draw.choice((1, 1, 4, 16))

        def flip(folder: Path, where: float = where, bit: int = bit, count: int = count) -> None:
            content = bytearray((folder / path).read_bytes())
            at = int(where * len(content))
            for i in range(at, min(at + count, len(content))):
                content[i] ^= bit
            (folder / path).write_bytes(content)

        verbs = (
            ("translate", f"runs/{run}", SENTENCE),
            ("align", run, "--source", "a.de", "--target", "a.en", "--layer", "0"),
        )
        yield Case(f"model.pt with {count} bytes changed {i}", verbs[i % 2], None, flip)
    for name, content in FILES.items():
        yield Case(f"model.pt is {name}", ("translate", f"runs/{run}", SENTENCE), True, _put(path, content))
        yield Case(
            f"pruning where model.pt is {name}", ("prune", f"runs/{run}", "--out", "pruned"), True, _put(path, content)
        )

        def interrupted(folder: Path, content: bytes | str = content) -> None:
            (folder / "runs" / run / "record.json").unlink()
            _put(f"runs/{run}/checkpoint.ckpt", content)(folder)

        yield Case(f"checkpoint.ckpt is {name}", ("train", "--config", "config.yaml"), None, interrupted)


def texts(run: str) -> Iterator[Case]:
    """Sentences of the user's own."""
    import gzip

    contents: dict[str, bytes | str] = {
        **FILES,
        "blank": b"   \n",
        "gzip": gzip.compress(b"der Hund .\n"),
        "a cut gzip": gzip.compress(b"der Hund .\n" * 999)[:40],
        "a gzip bomb": gzip.compress(bytes(2**28 + 1), 1),
        "gzip of bytes": gzip.compress(bytes(range(256))),
        "a null byte": b"der\0Hund\n",
        "two lines": b"a\nb\n",
        "CR": b"a\rb\n",
        "a long line": b"der " * 20_000 + b"\n",
        "latin": "Bär\n".encode("latin-1"),
        "UTF-16": "der Hund\n".encode("utf-16"),
    }
    for (name, content), side in itertools.product(contents.items(), ("source", "target")):
        argv = ("align", run, "--source", "a.de", "--target", "a.en", "--layer", "0")
        refused = (
            None
            if name in ("gzip", "CR", "a long line", "null", "a list", "an empty mapping", "a long number", "deep")
            else True
        )
        yield Case(f"--{side} is {name}", argv, refused, _put("a.de" if side == "source" else "a.en", content))


def leases(run: str) -> Iterator[Case]:
    """Files that the folder of a running run may have."""
    files: dict[str, dict[str, bytes | str]] = {name: {"lease": content} for name, content in FILES.items()}
    files |= {f"claim.1 {name}": {"lease": b"", "claim.1": content} for name, content in FILES.items()}
    files |= {
        name: {name: b""}
        for name in ("claim.1~", "claim.x", "claim.1 (conflicted copy)", "claim.٣", "claim." + "9" * 40)
    }
    files |= {f"progress {name}": {"progress.json": content} for name, content in FILES.items()}
    files |= {f"history {name}": {"history.jsonl": content} for name, content in FILES.items()}
    for (name, there), verb in itertools.product(files.items(), ("status", "train", "dry run")):

        def lay(folder: Path, there: dict[str, bytes | str] = there) -> None:
            (folder / "runs" / run / "record.json").unlink()
            for path, content in there.items():
                _put(f"runs/{run}/{path}", content)(folder)

        argv = {
            "status": ("sweep", "sweep.yaml", "--status"),
            "dry run": ("sweep", "sweep.yaml", "--dry-run"),
            "train": ("train", "--config", "config.yaml"),
        }[verb]
        yield Case(f"lease {name}: {verb}", argv, None, lay)


def corpora() -> Iterator[Case]:
    """A damaged cache; a folder of Multi30k that is none."""
    for name, content in FILES.items():

        def cached(folder: Path, content: bytes | str = content) -> None:
            for path in (folder / "cache" / "attention-ablation" / "grammar").glob("*.json"):
                _put(str(path.relative_to(folder)), content)(folder)

        yield Case(f"cached corpus is {name}", ("train", "--config", "config.yaml", "--seed", "9"), None, cached)

        def corpus(folder: Path, content: bytes | str = content) -> None:
            _put("corpus", content)(folder)

        argv = ("train", "--data.name", "multi30k", "--data.folder", "corpus", "--training.steps", "1")
        yield Case(f"Multi30k is {name}", argv, True, corpus)

        def one(folder: Path, content: bytes | str = content) -> None:
            from study.corpora.multi30k import SHA256

            for path in SHA256:
                _put(f"corpus/{path}", content)(folder)

        yield Case(f"files of Multi30k are {name}", argv, True, one)


# Surroundings

VARIABLES: dict[str, tuple[str | None, ...]] = {
    "STUDY_RUNS": ("", *PATHS.values()),
    "STUDY_MULTI30K": ("", *PATHS.values()),
    "XDG_CACHE_HOME": ("", *PATHS.values()),
    "HOME": (None, "", "absent", "a.de", "/dev/null"),
    "TMPDIR": ("", "absent", "a.de", "x" * 200),
    "MPLBACKEND": ("", "nonsense", "module://matplotlib_inline.backend_inline", "Qt5Agg"),
    "LOCAL_RANK": ("", "1", "x"),
    "WANDB_MODE": ("", "nonsense", "OFFLINE", "online"),
    "WANDB_PROJECT": ("a/b", "p" * 200, "a\nb", "#"),
    "WANDB_ENTITY": ("a/b", "\n"),
    "WANDB_TAGS": ("t" * 100, ",,,", "a\nb"),
    "WANDB_RUN_ID": ("", "a/b", "x" * 200, "a b"),
    "WANDB_SWEEP_ID": ("", "x", "a/b"),
    "WANDB_BASE_URL": ("nonsense", "", "http://localhost:1"),
    "WANDB_DIR": ("absent", "a.de", "x/" * 2500),
    "CUDA_VISIBLE_DEVICES": ("x", "-1", "0,0"),
    "OMP_NUM_THREADS": ("x", "-1", "0"),
    "COLUMNS": ("x", "0", "1", "-5", "99999999"),
    "TERM": ("", "nonsense", "dumb"),
    "NO_COLOR": ("1",),
    "FORCE_COLOR": ("1",),
    "SOURCE_DATE_EPOCH": ("x", "-1", "99999999999999"),
}


def surroundings(run: str) -> Iterator[Case]:
    """Variables of the environment that are set oddly."""
    verbs = {
        "show": ("show", run, "--plot", "x.png"),
        "train": ("train", "--config", "config.yaml", "--seed", "3"),
        "status": ("sweep", "sweep.yaml", "--status"),
        "report": ("report", "--sweep", "sweep.yaml"),
        "explain": ("explain", "--config", "config.yaml"),
    }
    for name, values in VARIABLES.items():
        for value, (verb, argv) in itertools.product(values, verbs.items()):
            if value is not None and "\0" in value:
                continue  # no environment has it
            short = repr(value)[:20]
            yield Case(f"{name}={short}: {verb}", argv, None, before, {name: value})
