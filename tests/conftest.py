"""Before anything imports SciPy: scikit-learn's array API checks are skipped unless this is set."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")
