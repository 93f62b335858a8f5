"""What the commands call: connections to the clusters of an operation, and all that is done with one."""
