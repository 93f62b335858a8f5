"""The command line: one module per command, which parses options, calls one service and shows the result."""

if __name__ != "mmtool.commands":
    raise ImportError(
        "import mmtool.commands, not commands: the bare name would load a second copy of every class"
    )
