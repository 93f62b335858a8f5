"""Moving consumer groups: what is written, in which order, and what is said about it."""
