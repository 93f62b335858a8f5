"""MirrorMaker 2 on the same flow: the guard before a start, the takeover, the watch while mmtool runs."""
