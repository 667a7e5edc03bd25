"""One Experiment to one Record: vocabulary, batches, the Lightning task, decoding, diagnostics, tracking."""
