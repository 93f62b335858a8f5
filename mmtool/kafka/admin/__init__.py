"""Admin requests: topics, configs, ACLs and cluster facts, read and changed."""
