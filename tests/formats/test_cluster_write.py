"""What save writes, load reads: the same machine, and the second save is the first, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fluxres.formats.cluster import Hold, read_cluster
from fluxres.formats.cluster_write import write_cluster
from fluxres.graph.compare import equal
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.graph.uuids import new_origin
from tests.formats.structures import structures


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(structures())
def test_any_structure_is_read_back_equal_and_written_back_the_same(structure: Structure) -> None:
    text = write_cluster(structure)
    again = read_cluster(text.encode()).structure
    assert equal(structure, again) == []
    assert write_cluster(again) == text
