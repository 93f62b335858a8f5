"""The words that mark a key as a secret's, for the redaction of stderr and for messages that must pass it whole."""

MARKING_WORDS = r"password|passwd|secret|passphrase|access\.key|token"
"""Alternatives of a regular expression, to be matched without regard to case anywhere in a name."""
