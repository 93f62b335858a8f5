"""Mirror with the source's own offsets: the second kind of mirror. See docs/decisions/0035."""
