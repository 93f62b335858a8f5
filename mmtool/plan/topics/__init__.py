"""Topics as data: configs, ACLs, topology, retention."""
