"""What verl's processes import. verl comes first: its own import loads our plugin, and with it every module here.

Were a module of ours begun before verl, the plugin would meet it half made, fail, and verl would keep silent about it.
"""

# pyright: reportMissingImports=false

import verl  # noqa: F401  # pyright: ignore[reportUnusedImport]
