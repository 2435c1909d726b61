"""One module per API, whose docstring is its contract; `refusals` has those without an implementation."""
