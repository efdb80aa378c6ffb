"""From traces to error sites. Reads `Trace` records, writes `ErrorSite` records; no model is asked."""

from .detect import find_sites

__all__ = ["find_sites"]
