"""The public face of oncelog: what people import, and the console script."""
