"""The algebra of offsets: runs, MirrorMaker 2 records, translation, naming. No IO, no clock."""

if __name__ != "mmtool.translation":
    raise ImportError(
        "import mmtool.translation, not translation: the bare name would load a second copy of every class"
    )
