"""Reports of an operation: rows, sentences and files."""
