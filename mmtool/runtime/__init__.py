"""The process itself: operator, paths, signals, threads, time limits."""
