"""Strategies for choices that other strategies make, each made once: to make one takes longer than to draw from it."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

integers = cache(st.integers)


@lru_cache(maxsize=None, typed=True)  # 1, 1.0 and True are equal
def among(*options: T) -> st.SearchStrategy[T]:
    """One of these, the first being the simplest."""
    return st.sampled_from(options)
