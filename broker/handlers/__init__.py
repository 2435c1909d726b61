"""One module per API, whose docstring is its contract; `refusals` holds those that have nothing behind them."""
