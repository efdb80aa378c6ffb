"""Looking at a run: `show` in a terminal, `view` in a browser, an export. Reads run folders; writes votes and a cache."""
