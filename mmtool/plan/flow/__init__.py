"""A flow as data: status, moves, throttle, take-over."""
