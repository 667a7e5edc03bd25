"""Records of runs, in folders of working runs and in the tables of results: read, written, and found by name."""
