"""``python -m fluxres`` is the command `fluxres`."""

import sys

from fluxres.cli.main import main

sys.exit(main())
