"""Seeded faults under load: what is done to a running flow, and what its clusters hold when all is healed."""
