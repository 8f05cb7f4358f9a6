"""Grading what others have written: one sandbox for each submission, one verdict for notebook, terminal and class."""
