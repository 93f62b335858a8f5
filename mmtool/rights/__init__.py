"""The rights that mmtool needs on each cluster, by purpose: one table, read by `mmtool acls` and `mmtool doctor`."""
