"""The composition root: creates the parts of a broker and connects them."""
