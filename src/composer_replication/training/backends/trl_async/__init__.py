"""Adapter to TRL's asynchronous trainer: rollouts are played while the policy trains, and may be a few steps old."""

COMPOSITE = "whole-vocabulary"
