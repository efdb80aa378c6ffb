"""Short functions on numbers, texts and lists."""
