"""One module per API; each docstring is the contract of its API."""
