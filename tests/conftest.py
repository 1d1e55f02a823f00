"""What the whole suite shares: the traceability check, and `--cases` of the conformance tests.

`--cases` stands here and not in `tests/conformance`, because pytest reads options before it looks into sub-folders.
"""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester", "tests.traceability"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", metavar="DIR", default=None, help="folder with recorded facts of other systems, for tests/conformance"
    )
