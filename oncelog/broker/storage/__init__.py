"""How the records of partitions are stored: one folder for each implementation of `broker.log.store`."""
