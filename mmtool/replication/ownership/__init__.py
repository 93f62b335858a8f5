"""Ownership of a flow: the lease, claims and fencing, and the checks that refuse a start."""
