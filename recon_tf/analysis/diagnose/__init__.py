"""Measurements of trained runs: they write JSON and draw nothing."""
