"""The commands of `oncelog` beside `serve`."""
