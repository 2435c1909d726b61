"""Work in turns of one event loop: values that arrive later, long work in slices, and the ports of the machine."""
