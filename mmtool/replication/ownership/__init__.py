"""Who runs a flow: the lease, fencing, claims, and what is refused at the start."""
