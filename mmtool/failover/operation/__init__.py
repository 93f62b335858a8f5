"""An operation from its start to its end: states, steps, journal, recovery, hooks."""
