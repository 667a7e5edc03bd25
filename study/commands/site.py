"""`study site`: static pages of claims, sweeps, arms, runs and sentences, from records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser, folder, natural, runs_folder

DESCRIPTION = """\
Write a site to look at runs: claims with their verdicts, then sweeps, arms, runs, and sentences with translations and
attention maps. It shows the published results, or your own runs with --runs. The pages need no server, no network and
no account: open index.html. --serve shows the site on this machine and builds it again whenever a record changes.
Trains nothing and needs no torch.
"""
PORT = 8000


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, sweep file or record, or a folder that has other files or cannot be written.
    """
    args = _parser().parse_args(argv)
    runs = (
        folder(args.results or Path("results"), "--results")
        if args.runs is None
        else folder(runs_folder(args.runs), "--runs")
    )
    from study.publish.site import output
    from study.publish.site.content import Content
    from study.store import is_results

    sweeps = Path("sweeps") if args.sweeps is None else folder(args.sweeps, "--sweeps")

    def build() -> Content:
        return Content(runs, sweeps)

    if args.serve is not None:
        watched = runs / "runs" if is_results(runs) else runs
        output.serve(output.Live(build, watched, lambda line: print(line, flush=True)), args.serve)
        return 0
    count, size = output.write(build(), args.out)
    print(f"{args.out / 'index.html'}  ({count} files, {size / 1e6:.1f} MB)")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study site", description=DESCRIPTION)
    add = parser.add_argument
    where = parser.add_mutually_exclusive_group().add_argument
    where("--results", type=Path, metavar="DIR", help="folder of the published results (default: results)")
    where("--runs", metavar="DIR", help="folder of your own runs instead")
    add("--sweeps", type=Path, metavar="DIR", help="folder of the sweep files (default: sweeps)")
    add("--out", type=Path, default=Path("_site"), metavar="DIR", help="folder of the site (default: _site)")
    add(
        "--serve",
        nargs="?",
        type=natural,
        const=PORT,
        metavar="PORT",
        help=f"show it on this machine (default port: {PORT})",
    )
    return parser
