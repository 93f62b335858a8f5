"""Fences that stop producers from writing to the source's topics."""
