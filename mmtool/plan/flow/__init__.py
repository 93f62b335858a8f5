"""A flow as data: phases, rounds, status rows, moves, throttle, takeover."""
