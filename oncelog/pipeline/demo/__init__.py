"""`make demo`: the main job on real purchases, under faults, reported as it runs and verified at the end."""
