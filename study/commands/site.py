"""Write a site to look at runs.

It shows claims with their verdicts, then sweeps, arms, runs, and sentences with translations and attention maps: of the
published results, or of your own runs with --runs. The pages need no server, no network and no account: open
index.html. --serve shows the site on this machine and builds it again whenever a record changes. Trains nothing and
needs no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from study.commands.options import Parser, folder, natural
from study.run_names import results_folder, sweeps_of

PORT = 8000


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, sweep file or record, or a folder that has other files or cannot be written.
    """
    parser = Parser(prog="study site", description=__doc__)
    add = parser.add_argument
    parser.share("--claims")
    add("--runs", type=Path, metavar="DIR", help="runs of your own, or other results (default: the published ones)")
    add("--out", type=Path, default=Path("_site"), metavar="DIR", help="folder of the site (default: _site)")
    text = f"show it on this machine (default port: {PORT})"
    add("--serve", nargs="?", type=natural, const=PORT, metavar="PORT", help=text)
    args = parser.parse_args(argv)
    runs = folder(args.runs or results_folder(), "--runs")
    from study.publish.site import output
    from study.publish.site.content import Content

    build = partial(Content, runs, sweeps_of(runs), args.claims)
    if args.serve is not None:
        output.serve(build, runs, args.serve, partial(print, flush=True))
        return 0
    output.check(args.out)  # before a minute of work
    count, size = output.write(build(), args.out)
    print(f"{args.out / 'index.html'}  ({count} files, {size / 1e6:.1f} MB)")
    return 0
