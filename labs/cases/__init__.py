"""Worked cases: what was built and published, in small on real ranks, and beside the planner's figures."""
