"""An operation from its start to its end: states, journal, recovery, hooks."""
