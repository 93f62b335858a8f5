"""The modes of a failover: planned, emergency, failback, drill; and the release of topics."""
