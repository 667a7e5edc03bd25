"""The verbs of the command line: one module each, with `main(argv) -> int`. Heavy libraries are imported inside."""

GROUPS = {
    "run experiments": {
        "train": "train, test and record one experiment",
        "sweep": "run every experiment of a sweep file that has no result yet",
        "rerun": "train a run again from its record and compare every number",
        "prune": "remove heads from a trained model and measure the loss",
    },
    "look at experiments and runs": {
        "ls": "list sweeps, runs, presets, fields, scores, sites or corpora",
        "runs": "list runs: filter, sort, CSV, JSON",
        "corpus": "print sentence pairs of a corpus, its vocabulary and known words",
        "data": "check parallel text of your own before training on it",
        "check": "run the standard tests on a mechanism of your own",
        "explain": "print formulas, parameters and FLOPs of an experiment",
        "show": "print one run: fields, scores, learning curve, attention map",
        "translate": "translate a sentence and draw its alignment",
        "compare": "translate a sentence with several models, side by side",
        "sentences": "print the worst translations of a run",
        "diff": "print what differs between two runs: fields, sizes, scores",
        "align": "align the words of sentence pairs by attention",
        "wandb": "send runs to W&B from their records",
    },
    "analyse (no torch)": {
        "report": "print and write the table and the figure of a sweep",
        "claims": "print the verdict on each claim",
        "figures": "draw the figures of the study",
        "site": "write pages to look at runs, or show them live",
        "softmax": "draw the textbook curves behind 1/√d",
    },
    "publish and check (no torch)": {
        "publish": "check the runs of a sweep and copy them to results/",
        "verify": "check every published file; with --rescore, every score too",
        "reproduce": "recompute tables, figures and paper, and compare with git",
    },
    "the command line": {
        "help": "print the help of a verb",
        "completion": "print a completion script for bash, zsh or fish",
    },
}
VERBS = {verb: line for group in GROUPS.values() for verb, line in group.items()}
