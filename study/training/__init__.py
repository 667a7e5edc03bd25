"""Training of one Experiment to one Record by `run.run`. Another kind of run, such as a pruning, gives it `Hooks`."""
