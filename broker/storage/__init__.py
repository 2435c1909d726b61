"""Where the records of partitions lie: one folder or module for each way to store them, behind `broker.log.store`."""
