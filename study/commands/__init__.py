"""The verbs of the command line: one module each, with `main(argv) -> int`. Heavy libraries are imported inside."""
