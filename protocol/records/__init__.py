"""Record batches of magic 2, records, control records, compression, and the files beside a log."""
