"""The functions that the failover commands call: connect to an operation's clusters, and execute it."""
