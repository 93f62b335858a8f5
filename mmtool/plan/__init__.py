"""Facts in, frozen steps out. No IO, no clock."""
