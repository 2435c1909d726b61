"""How the parts of a broker are made and put together."""
