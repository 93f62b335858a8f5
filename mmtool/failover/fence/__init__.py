"""Fences: producers are kept off the source's topics."""
