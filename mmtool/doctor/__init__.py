"""``mmtool doctor``: find what would break a flow before it does. Every check reads; none writes."""
