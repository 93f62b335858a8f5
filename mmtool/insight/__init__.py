"""Seeing what is: translation, status, lag, checks. Reads clusters, changes nothing."""
