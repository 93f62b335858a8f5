"""Read-only services: status, translation, audit, smoke test, verification."""
