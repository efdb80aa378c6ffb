"""What several experiments need and the library does not. `recompose experiment` puts the folder above on the path."""
