"""Adapters to TRL, and to the trainer of transformers for stored traces alone."""

COMPOSITE = "whole-vocabulary"
