"""Secured clusters of the lab: certificates, users and rights, and a token endpoint."""
