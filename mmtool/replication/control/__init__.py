"""The control topic, as the driver and the workers follow it."""
