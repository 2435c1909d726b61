"""Reading topics into Spark: which offsets a batch covers, and the records of a range as Arrow."""
