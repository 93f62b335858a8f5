"""MirrorMaker 2's topics and Connect's stored offsets."""
