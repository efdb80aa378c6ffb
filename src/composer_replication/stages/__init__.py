"""One module per stage of the pipeline: it reads records of earlier stages, calls its package, finishes its folder."""
