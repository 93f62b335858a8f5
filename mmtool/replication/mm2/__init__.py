"""MirrorMaker 2 beside or before mmtool: guard, take-over, watch."""
