"""Looking at a run: `show` in a terminal, `view` in a browser, an export. Reads runs; writes votes and a cache."""
