"""`study site`: static pages of claims, sweeps, arms, runs and sentences, from records alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from study.commands.options import Parser, folder, natural, runs_folder

if TYPE_CHECKING:
    from study.publish.site.content import Content

DESCRIPTION = """\
Write a site to look at runs: claims with their verdicts, then sweeps, arms, runs, and sentences with translations and
attention maps. It shows the published results, or your own runs with --runs. The pages need no server, no network and
no account: open index.html. --serve shows the site on this machine and builds it again whenever a record changes.
Trains nothing; only --maps needs torch.
"""
PORT = 8000
MAPPED = 10
"""Sentences of a run whose maps are computed."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, sweep file or record, or a folder that has other files or cannot be written.
    """
    args = _parser().parse_args(argv)
    given, option = (args.results or Path("results"), "--results") if args.runs is None else (args.runs, "--runs")
    runs = folder(runs_folder(given), option)
    from study.publish.site import output
    from study.publish.site.content import Content

    sweeps = Path("sweeps") if args.sweeps is None else folder(args.sweeps, "--sweeps")

    def build() -> Content:
        return Content(runs, sweeps, args.claims)

    if args.serve is None:
        output.check(args.out)  # before a minute of work
    if args.maps:
        _make_maps(build())
    if args.serve is not None:
        output.serve(build, runs, args.serve, partial(print, flush=True))
        return 0
    count, size = output.write(build(), args.out)
    print(f"{args.out / 'index.html'}  ({count} files, {size / 1e6:.1f} MB)")
    return 0


def _make_maps(content: Content) -> None:
    """Write the attention maps of every run that has a model, unless they are there."""
    from study.publish.site.content import MAPS
    from study.training import maps, translation

    for identity in content.trees:
        texts, model = content.texts(identity), content.store.model(identity)
        if model is None or texts is None or not texts.pairs or MAPS in content.maps(identity):
            continue
        trained = translation.read(model, content.store.where(identity))
        if content.published and not trained.experiment.data.shipped:  # sentences that may not be published
            continue
        made = maps.sentence_maps(trained, texts.pairs[:MAPPED], content.translations(identity, texts))
        print(content.write_maps(identity, made), flush=True)


def _parser() -> Parser:
    parser = Parser(prog="study site", description=DESCRIPTION)
    add = parser.add_argument
    where = parser.add_mutually_exclusive_group().add_argument
    where("--results", type=Path, metavar="DIR", help="folder of the published results (default: results)")
    where("--runs", metavar="DIR", help="folder of your own runs instead")
    add("--sweeps", type=Path, metavar="DIR", help="folder of the sweep files (default: sweeps)")
    add("--claims", type=Path, metavar="FILE", help="your own claims, added to those of this study")
    add("--out", type=Path, default=Path("_site"), metavar="DIR", help="folder of the site (default: _site)")
    help_ = f"first compute the maps of {MAPPED} sentences, by site, layer and head, of each run that has a model"
    add("--maps", action="store_true", help=f"{help_}; needs torch")
    help_ = f"show it on this machine (default port: {PORT})"
    add("--serve", nargs="?", type=natural, const=PORT, metavar="PORT", help=help_)
    return parser
