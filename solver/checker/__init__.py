"""Independent checker of plans, written from docs/model.md; shares no code with model or greedy."""
