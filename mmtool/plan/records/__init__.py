"""The documents that internal topics store, as values and as bytes."""
