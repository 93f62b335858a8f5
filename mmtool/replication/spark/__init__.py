"""Rounds as Spark jobs: session, class archive, slots and tasks."""
