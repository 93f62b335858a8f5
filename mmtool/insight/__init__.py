"""Services that read clusters: status, translation, audit, verification; the smoke test writes canary records."""
