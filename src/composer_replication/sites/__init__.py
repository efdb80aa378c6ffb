"""From traces to error sites. Reads `Trace` records, writes `ErrorSite` records. No model is asked unless a reader is set."""

from .detect import find_sites

__all__ = ["find_sites"]
