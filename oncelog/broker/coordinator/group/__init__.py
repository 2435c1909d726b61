"""The group coordinator: offsets; classic, consumer, share and streams groups, the last three on one engine."""
