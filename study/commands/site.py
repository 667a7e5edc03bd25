"""Write a site to look at runs.

It shows claims with their verdicts, then sweeps, arms, runs, and sentences with translations and attention maps: of the
published results, or of your own runs with --runs. The pages need no server, no network and no account: open
index.html. Trains nothing and needs no torch.
"""

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser, folder
from study.folders import results_folder, sweeps_of


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, sweep file or record, or a folder that has other files or cannot be written.
    """
    parser = Parser("site", __doc__)
    add = parser.add_argument
    parser.share("--claims")
    add("--runs", type=Path, metavar="DIR", help="runs of your own, or other results (default: the published ones)")
    add("--out", type=Path, default=Path("_site"), metavar="DIR", help="folder of the site (default: _site)")
    args = parser.parse_args(argv)
    runs = folder(args.runs or results_folder(), "--runs")
    from study.publish.site import output
    from study.publish.site.content import Content

    output.check(args.out)  # before a minute of work
    count, size = output.write(Content(runs, sweeps_of(runs), args.claims), args.out)
    print(f"{args.out / 'index.html'}  ({count} files, {size / 1e6:.1f} MB)")
    return 0
