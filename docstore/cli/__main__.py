"""`python -m docstore.cli` is `docstore`."""

from __future__ import annotations

import sys

from docstore.cli.main import main

sys.exit(main())
