"""specs/openapi.json, from the routes.

    python -m tests.service.openapi

writes it.
"""

from __future__ import annotations

import json

from fluxres.service.app import routes
from tests.traceability import ROOT

FILE = ROOT / "specs" / "openapi.json"


def document() -> str:
    """The OpenAPI document of the service."""
    return json.dumps(routes().openapi_schema.to_schema(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
    print(FILE)
