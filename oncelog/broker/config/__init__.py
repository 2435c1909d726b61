"""Settings: the tables of names, the sources of values, and changes while the broker runs."""
