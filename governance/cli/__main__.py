"""What does `python -m governance.cli` do? The same as `governance`."""

import sys

from governance.cli.entry import main

sys.exit(main())
