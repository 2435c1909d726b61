"""Record batches of magic 2, records, control records, compression, and the file formats of a log."""
