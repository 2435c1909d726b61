"""Generated codecs: one module a message, written by `make generate`."""
