"""An operation as rows, sentences and files."""
