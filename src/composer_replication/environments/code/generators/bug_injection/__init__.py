"""Bug injection: small bugs put into tested functions by rule, without a model. The entry is `generate.propose`."""
