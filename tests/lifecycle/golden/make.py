"""Write the golden files of the present format. Never run it for a format that was released.

cd tests && python -m lifecycle.golden.make
"""

from __future__ import annotations

import json
from pathlib import Path

from lifecycle.samples import mixed_table, models, raw

from unbiasedgbm.files.model_file import FORMAT_VERSION

HERE = Path(__file__).parent

if __name__ == "__main__":
    expected = json.loads((HERE / "expected.json").read_text())
    probe = mixed_table(20, seed=3)
    for name, (model, _) in models(n=300, n_estimators=4).items():
        stem = f"format-{FORMAT_VERSION}-{name}"
        model.save_model(HERE / f"{stem}.json{'.gz' if name == 'multiclass' else ''}")
        expected[stem] = {"raw": raw(model, probe).tolist(), "n_iter": model.n_iter_}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
