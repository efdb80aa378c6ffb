"""Submissions that try to be graded as passed without doing the work, by the number of their class."""

from .forgers_answering import ANSWERING
from .forgers_meddling import MEDDLING

FORGERS = dict(sorted((ANSWERING | MEDDLING).items()))
