"""Consumer groups as data: facts, offsets to write, sync, audit, files."""
