"""What the viewer knows, one function per answer: reads a `View` and a query, gives JSON. `api.py` names them all."""
