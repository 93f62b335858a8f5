"""Rounds as Spark jobs: session, archive, slots, tasks."""
