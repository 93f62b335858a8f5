"""Changes of a stopped flow's stored state: seek, forget and rebuild. Pauses, also of a running one."""
