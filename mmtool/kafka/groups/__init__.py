"""Consumer groups: offsets, members, coordinators, and the leases that mmtool holds through groups."""
