"""The driver's loop: flows, rounds, configuration, progress."""
