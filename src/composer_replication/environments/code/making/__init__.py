"""`recompose env make`: candidates, workers, certified tasks."""
