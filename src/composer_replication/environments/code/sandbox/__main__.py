"""`python -m composer_replication.environments.code.sandbox`: which backends work here, and what bounds them."""

from __future__ import annotations

import sys

from .limits import controllers
from .open import available_backends


def main() -> int:
    backends = available_backends()
    for name, why in backends.items():
        sys.stdout.write(f"{name:12} {why or 'works'}\n")
    groups = ", ".join(f"{'+'.join(place.names)} (v{place.version})" for place in controllers())
    sys.stdout.write(f"control groups: {groups or 'none; memory and processes are watched instead'}\n")
    return 0 if any(not why for why in backends.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
