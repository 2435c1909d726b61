"""Seeded simulations: a workload, faults, and an auditor that knows what must hold. `make sim` runs them."""
