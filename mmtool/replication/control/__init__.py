"""Readers of the control topic: in the driver, and in the workers."""
