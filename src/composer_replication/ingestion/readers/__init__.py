"""One module per format that agents leave behind."""
