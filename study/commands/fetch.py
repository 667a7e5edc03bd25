"""Fetch the published results of this version into the folder results, where no checkout is.

Every verb that reads published runs finds them there: `study claims 4`, `study show RUN`, `study site`. Each file is
compared with the SHA-256 that the package carries. The folder appears when it is whole; a fetch that was interrupted
continues with the same command. Needs no torch.
"""

from collections.abc import Sequence

from study.commands.options import Parser


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, another folder results, or a place without the files of this version.
    """
    parser = Parser("fetch", __doc__)
    parser.add_argument("what", choices=["results"], help="the published results: tables, figures, runs and models")
    text = "a checkout, its folder results, a .zip of it, or the URL of its files (default: the project's own)"
    parser.add_argument("--from", dest="place", metavar="PLACE", help=text)
    args = parser.parse_args(argv)
    from study.publish import fetch
    from study.store.manifest import Results

    size = fetch.fetch(args.place)
    done = f"fetched, {size / 1e6:.1f} MB" if size else "here already"
    print(f"{fetch.TARGET}: {done}; every file has its SHA-256; root hash {Results(fetch.TARGET).root_hash}")
    return 0
