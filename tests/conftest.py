import os
import sys
from pathlib import Path

# Before anything imports SciPy: scikit-learn's array API checks are skipped unless this is set.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# Before anything loads OpenMP: threads of other libraries that spin while they wait starve the other test processes.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# so that tests in folders find the helpers beside this file
sys.path.insert(0, str(Path(__file__).parent))
