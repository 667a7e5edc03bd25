"""The engines: runs that a sweep declares and that are missing, made by processes here or elsewhere. Knows no torch."""
