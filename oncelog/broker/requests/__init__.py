"""From a frame to a handler and back: what a handler is given, and the parts of a running broker."""
