"""Failover plans as data: steps, guards, risks, fences."""
