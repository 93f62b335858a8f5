"""A plan in words: runbook, saved plan, fingerprint."""
