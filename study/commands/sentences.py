"""`study sentences RUN`: the worst translations of a run, or those that lose most against another run."""

from __future__ import annotations

from collections.abc import Sequence

from study.analysis.labels import number
from study.commands.options import RUNS, Parser, add_formats, named_as_flags, positive, print_frame, runs_folder
from study.run_names import RUN, find

DESCRIPTION = """\
Print sentences of a split with source, reference and translation, the worst first. With --vs, sentences are sorted by
the score of RUN minus the score of the other run. Scores are of one sentence each. Needs no torch and no model.

The references come from the corpus: generated corpora are generated again; Multi30k and text of your own need the
variable STUDY_MULTI30K or STUDY_FILES.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, split or score, or the corpus cannot be read.
    """
    args = _parser().parse_args(argv)
    from study.analysis.sentences import sentences

    runs = runs_folder(args.runs)
    run = find(args.run, runs)
    versus = find(args.vs, runs) if args.vs is not None else None
    with named_as_flags("split", "score"):
        frame = sentences(run, versus, args.split, args.score)
    frame = frame[::-1][: args.best] if args.best is not None else frame[: args.worst]
    if print_frame(frame, args):
        return 0
    names = {"source": "source", "reference": "reference", "hypothesis": run[1]}
    names |= {"hypothesis_vs": versus[1]} if versus else {}
    width = max(map(len, names.values()))
    other = f" − that of {versus[1]}" if versus else ""
    print(f"{frame.attrs['split']}: {frame.attrs['score']} of each sentence{other}\n")
    for row in frame.to_dict("records"):
        scores = [number(row["score"])]
        scores += [f"− {number(row['score_vs'])} = {number(row['difference'], sign=True)}"] if versus else []
        print(f"line {row['line']}   {' '.join(scores)}")
        for column, name in names.items():
            print(f"  {name:<{width}}  {row[column]}")
        print()
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study sentences", description=DESCRIPTION)
    add = parser.add_argument
    add("run", metavar="RUN", help=RUN)
    add("--vs", metavar="RUN", help="another run on the same corpus")
    number_ = parser.add_mutually_exclusive_group().add_argument
    number_("--worst", type=positive, metavar="N", default=20, help="number of sentences (default: 20)")
    number_("--best", type=positive, metavar="N", help="the N best sentences instead, the best first")
    add("--split", metavar="NAME", help="split of the corpus (default: its first test split)")
    add(
        "--score",
        metavar="NAME",
        help="chrf, bleu, exact, prefix or accuracy (default: chrf; accuracy for a corpus without sentences)",
    )
    add_formats(parser)
    add("--runs", metavar="DIR", help=RUNS)
    return parser
