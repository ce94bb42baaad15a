"""Greedy placement strategies: functions of one shape, Problem → Assignment."""
