"""One module per API, whose docstring is its contract."""
