"""The driver: its main loop, its flows and rounds, configuration reload and progress."""
