"""The verbs of the command line: one module each, with `main(argv) -> int`. Heavy libraries are imported inside."""

GROUPS = {
    "run experiments": {
        "train": "train, test and record one experiment",
        "plan": "print the seeds, runs and hours that a margin needs",
        "sweep": "run every experiment of a sweep file that has no result yet",
        "tune": "search settings on validation, with the same budget for every arm",
        "prune": "remove heads from a trained model and measure the loss",
        "rerun": "train a run again from its record and compare every number",
    },
    "look at experiments and runs": {
        "ls": "list runs, sweeps, presets, fields, scores or corpora",
        "show": "print one run, its translations, or a corpus",
        "translate": "translate a sentence and draw its alignment; align sentence pairs",
        "compare": "print what differs between runs, or translate a sentence with each",
        "explain": "print formulas, parameters and FLOPs of an experiment",
        "check": "test a mechanism of your own, or parallel text of your own",
    },
    "analyse (no torch)": {
        "report": "write the table and figure of a sweep, or the figures of the study",
        "claims": "print the verdict on each claim",
        "site": "write pages to look at runs",
    },
    "publish and check (no torch)": {
        "publish": "check the runs of a sweep and add them to results/",
        "fetch": "bring the published results to where no checkout is",
        "verify": "check every published file; with --rescore, every score too",
        "reproduce": "recompute tables, figures and paper, and compare with git",
        "wandb": "send runs to W&B from their records",
    },
}
VERBS = {verb: line for group in GROUPS.values() for verb, line in group.items()}
