"""The commands of `oncelog` besides `serve`."""
