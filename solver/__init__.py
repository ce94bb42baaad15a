"""The placement solver: snapshot in, proven plan out.

What an embedding scheduler needs, and nothing more: `solve`, `check`, `apply`.
"""
