"""Everything of ours that reads bytes or text of others, and damage to try on it."""
