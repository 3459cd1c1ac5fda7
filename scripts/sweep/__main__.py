"""The program of scripts/sweep.sh."""

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from sweep.command import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
