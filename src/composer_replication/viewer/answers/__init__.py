"""What the viewer knows, one function per answer: reads a `RunView` and a query, gives JSON. `api.py` names all."""
