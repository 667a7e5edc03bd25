"""The verbs of the command line: one module each, with `main(argv) -> int`. Heavy libraries are imported inside."""

GROUPS = {
    "run experiments": {
        "train": "train, test and record one experiment",
        "plan": "print the seeds, runs and hours that a margin needs",
        "sweep": "run every experiment of a sweep file that has no result yet",
        "rerun": "train a run again from its record and compare every number",
        "prune": "remove heads from a trained model and measure the loss",
    },
    "look at experiments and runs": {
        "ls": "list runs, sweeps, presets, fields, scores or corpora",
        "show": "print one run, its translations, or a corpus",
        "compare": "print what differs between runs, or translate a sentence with each",
        "translate": "translate a sentence and draw its alignment",
        "align": "align the words of sentence pairs by attention",
        "explain": "print formulas, parameters and FLOPs of an experiment",
        "check": "run the standard tests on a mechanism of your own",
        "data": "check parallel text of your own before training on it",
        "wandb": "send runs to W&B from their records",
    },
    "analyse (no torch)": {
        "report": "print and write the table and figure of a sweep, or the figures of the study",
        "claims": "print the verdict on each claim",
        "site": "write pages to look at runs, or show them live",
    },
    "publish and check (no torch)": {
        "publish": "check the runs of a sweep and add them to results/",
        "verify": "check every published file; with --rescore, every score too",
        "reproduce": "recompute tables, figures and paper, and compare with git",
    },
    "the command line": {
        "help": "print the help of a verb",
    },
}
VERBS = {verb: line for group in GROUPS.values() for verb, line in group.items()}
