"""Topics, configs, ACLs and cluster facts, asked and changed."""
