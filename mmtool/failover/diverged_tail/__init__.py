"""Records that the source wrote after an emergency failover: found, exported, replayed."""
