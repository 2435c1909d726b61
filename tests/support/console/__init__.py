"""The console and the dashboard: in this process or behind a browser, and clusters that have something to show."""
