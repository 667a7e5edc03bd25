"""Write a site to look at runs.

It shows claims with their verdicts, then sweeps, arms, runs, and sentences with translations and attention maps: of the
published results, or of your own runs with --runs. The pages need no server, no network and no account: open
index.html. --serve shows the site on this machine and builds it again whenever a record changes. Trains nothing; only
--maps needs torch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from study import files
from study.commands.options import Parser, folder, natural
from study.errors import InputError
from study.run_names import results_folder, sweeps_folder

if TYPE_CHECKING:
    from study.publish.site.content import Content

PORT = 8000
MAPPED = 10
"""Sentences of a run whose maps are computed."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, sweep file or record, or a folder that has other files or cannot be written.
    """
    parser = Parser(prog="study site", description=__doc__)
    add = parser.add_argument
    parser.share("--results", "--runs", "--claims")
    add("--sweeps", type=Path, metavar="DIR", help="folder of the sweep files (default: sweeps)")
    add("--out", type=Path, default=Path("_site"), metavar="DIR", help="folder of the site (default: _site)")
    text = f"first compute the maps of {MAPPED} sentences, by site, layer and head, of each run that has a model"
    add("--maps", action="store_true", help=f"{text}; needs --runs and torch")
    text = f"show it on this machine (default port: {PORT})"
    add("--serve", nargs="?", type=natural, const=PORT, metavar="PORT", help=text)
    args = parser.parse_args(argv)
    runs = folder(args.runs or args.results or results_folder(), "--runs" if args.runs else "--results")
    sweeps = folder(args.sweeps or sweeps_folder(), "--sweeps")
    from study.publish.site import output
    from study.publish.site.content import Content

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
    from study.training import translation

    if content.published:
        raise InputError("--maps: expected runs of your own, got the published ones. Name their folder with --runs.")
    for identity in content.trees:
        texts, model, path = content.texts(identity), content.store.model(identity), content.folder / identity / MAPS
        if model is None or texts is None or not texts.pairs or path.is_file():
            continue
        trained = translation.read(model, content.store.where(identity))
        made = translation.sentence_maps(trained, texts.pairs[:MAPPED], content.translations(identity, texts))
        tree = {"sentences": made}
        text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"
        files.write(path, text)
        print(path, flush=True)
