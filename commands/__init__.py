"""One file per command: options in, service called, result shown."""

if __name__ != "mmtool.commands":
    raise ImportError(
        "import mmtool.commands, not commands: the bare name would load a second copy of every class"
    )
