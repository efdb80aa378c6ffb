"""Engines that run the training step; one folder each."""
