"""What tests share beside clients and fakes: a room for each kind of thing."""
