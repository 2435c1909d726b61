"""`oncelog log` over the tables of a broker that keeps its records in PostgreSQL."""
