"""`make demo`: the main job on real purchases, under trouble, told as it happens and verified in the end."""
