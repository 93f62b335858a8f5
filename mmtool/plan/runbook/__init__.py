"""A failover plan for people: runbook, saved plan, fingerprint."""
