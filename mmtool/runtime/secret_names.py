"""The words that mark a key as a secret's, for the redaction of stderr and for messages that must pass it whole."""

import re

MARKING_WORDS = r"password|passwd|secret|passphrase|access\.key|token"
"""Alternatives of a regular expression, to be matched without regard to case anywhere in a name."""


def marks_secret(name: str) -> bool:
    """Whether a key's name says that its value is a secret."""
    return _MARKING.search(name) is not None


_MARKING = re.compile(MARKING_WORDS, re.IGNORECASE)
