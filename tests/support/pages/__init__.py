"""What pages say: their commands are typed, and their data are made again."""
