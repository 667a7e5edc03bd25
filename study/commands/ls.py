"""`study ls WHAT`: list sweeps, runs, presets, fields, scores, sites or corpora."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from study.commands import runs
from study.commands.options import Parser, folder, table_lines

DESCRIPTION = """\
List what there is:
  sweeps    sweep files: runs, seeds, arms and the metric that decides
  runs      runs; the same as `study runs`, with its options
  presets   published models for --preset
  fields    fields of an experiment: short name in sweep files, and default
  scores    scores by corpus, as `split/score`, and their direction
  sites     attention sites of each family
  corpora   corpora and probes, and their splits
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: a wrong option, no such folder, or a file that cannot be read.
    """
    words = list(argv)
    if words[:1] == ["runs"] or ("runs" in words and not any(word in LISTERS for word in words)):
        words.remove("runs")  # the others are options of `study runs`, in any order
        return runs.main(words)
    args = _parser().parse_args(argv)
    if args.what == "runs":
        return runs.main(["--json"] * args.json)
    rows = list(LISTERS[args.what](args))
    if args.json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        print("\n".join(table_lines(rows)) if rows else f"no {args.what}")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study ls", description=DESCRIPTION)
    add = parser.add_argument
    what = "sweeps, runs, presets, fields, scores, sites or corpora"
    add("what", choices=("runs", *LISTERS), metavar="WHAT", help=what)
    add("--json", action="store_true", help="print JSON: a list of objects with the same keys as the columns")
    add("--sweeps", type=Path, default=Path("sweeps"), metavar="DIR", help="folder of sweep files (default: sweeps)")
    return parser


def _sweeps(args: Any) -> Iterator[dict[str, Any]]:
    from study.sweep.spec import load

    for path in sorted(folder(args.sweeps, "--sweeps").glob("*.yaml")):
        spec = load(path)
        yield {
            "file": str(path),
            "runs": len(spec.runnable),
            "seeds": len(spec.seeds),
            "arms": sum(map(len, spec.arms.values())),
            "metric": "/".join(spec.metric),
            "description": spec.description,
        }


def _presets(args: Any) -> Iterator[dict[str, Any]]:
    from study.config import TEXTBOOK

    for name, arm in TEXTBOOK.items():
        fields = {field: arm.overrides[field] for field in ("model.family", "model.attention.score")}
        yield {"preset": name, **fields, "source": arm.source, "differs": arm.differs}


def _field_rows(args: Any) -> Iterator[dict[str, Any]]:
    from study.sweep.fields import listed

    yield from listed()


def _scores(args: Any) -> Iterator[dict[str, Any]]:
    from study import metrics

    known = dict.fromkeys(name for section in _sections() for name in metrics.names(section))
    for score in dict.fromkeys(name.split("/")[1] for name in known):
        splits = [name.split("/")[0] for name in known if name.split("/")[1] == score]
        metric = metrics.METRICS[score]
        yield {
            "score": score,
            "name": metric.full_title,
            "goal": metric.goal,
            "splits": splits,
            "meaning": metric.meaning,
        }


def _sites(args: Any) -> Iterator[dict[str, Any]]:
    from study.config.sites import RecurrentSites, TransformerSites

    reads = {
        "encoder_self": "source tokens attend to source tokens",
        "decoder_self": "target tokens attend to earlier target tokens",
        "cross": "target tokens attend to the memory",
    }
    for family, sites in (("recurrent", RecurrentSites), ("transformer", TransformerSites)):
        for site in sites.model_fields:
            yield {"family": family, "site": site, "flags": f"--model.attention.{site}.*", "attends": reads[site]}


def _corpora(args: Any) -> Iterator[dict[str, Any]]:
    for section in _sections():
        task = " ".join((type(section).__doc__ or "").split("\n\n")[0].split())
        yield {"name": section.name, "splits": ["train", *section.scored], "task": task}


def _sections() -> list[Any]:
    from study.corpora.catalogue import KINDS

    return [kind.example() for kind in KINDS.values()]


LISTERS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "sweeps": _sweeps,
    "presets": _presets,
    "fields": _field_rows,
    "scores": _scores,
    "sites": _sites,
    "corpora": _corpora,
}
