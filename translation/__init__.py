"""The algebra of offsets: runs, translation, naming, MirrorMaker 2's records. No IO, no clock."""

if __name__ != "mmtool.translation":
    raise ImportError(
        "import mmtool.translation, not translation: the bare name would load a second copy of every class"
    )
