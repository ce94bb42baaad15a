"""`benchmarks` lies at the root of the repository and is no installed package."""

import sys
from pathlib import Path

# At the end: nothing at the root may shadow an installed package.
sys.path.append(str(Path(__file__).parents[2]))
