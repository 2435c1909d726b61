"""One module per API; each docstring is the contract of its API. `refusals` holds those that have nothing behind them."""
