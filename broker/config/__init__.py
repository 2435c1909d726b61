"""Settings: the tables of names, what was set where, what may change while the broker runs."""
