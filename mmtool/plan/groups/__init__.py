"""Consumer groups as data: facts, translated offsets, sync, audit, files."""
