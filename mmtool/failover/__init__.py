"""Failover of consumer groups: operations and their modes, commits, fences, the diverged tail, reports."""
