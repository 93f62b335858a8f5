"""Changes of a stopped flow's stored state: seek, forget, rebuild, pause."""
