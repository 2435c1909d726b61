"""The process of one broker: its command line, its signals, and a broker that serves until it is stopped."""
