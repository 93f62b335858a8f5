"""``mmtool doctor``: find what would hurt a flow before it does. Every check reads; none writes."""
