"""Measurements. Each figure is a ratio of things run in turns on the same machine; nothing here is a test."""
