"""The ways to move groups: planned, emergency, failback, drill, release."""
