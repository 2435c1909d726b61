"""PostgreSQL as a process, brokers over it, and tables that are filled and read at once."""
