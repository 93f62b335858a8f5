"""The process itself: operator name, paths, signals, threads, time limits."""
