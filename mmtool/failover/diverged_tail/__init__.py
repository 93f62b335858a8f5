"""The diverged tail of a source after an emergency failover: found and exported."""
