"""Generated codecs: one module a message, written by `protocol.codec`."""
