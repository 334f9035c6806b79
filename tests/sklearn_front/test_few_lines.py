"""Scripts of scikit-learn become private with four added lines; docs/sklearn.md counts those of others."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

import dptune
from sklearn_tools import PRIVATE, PUBLIC

IMPORTS = """
from scipy.stats import loguniform
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
"""
SCRIPTS = {
    "grid": 'search = GridSearchCV(LogisticRegression(C=0.01), {"C": [0.1, 1, 10]}, scoring="roc_auc", cv=3)',
    "random": 'search = RandomizedSearchCV(LogisticRegression(), {"C": loguniform(1e-2, 1e2)}, n_iter=5)',
}
AFTER = """
search.fit(X_train, y_train)
"""
ADDED = """
from dptune import Budget
from dptune_sklearn import PrivateSearch
search = PrivateSearch(search, ledger="ledger.db", budget=Budget.gdp(mu=1.0), loss="log_loss")
search.fit(X_train, y_train, X_val=X_val, y_val=y_val)
"""
RESULT = """
best, results, labels = search.best_params_, search.cv_results_, search.predict(X_train)
"""


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_becomes_private_with_four_added_lines(tmp_path, kind):
    assert len(ADDED.split("\n")) - 2 == 4
    script = f"{IMPORTS}{SCRIPTS[kind]}{AFTER}{ADDED}{RESULT}"
    known = {"X_train": PUBLIC[0], "y_train": PUBLIC[1], "X_val": PRIVATE[0], "y_val": PRIVATE[1]}
    with contextlib.chdir(tmp_path):
        exec(compile(script, "script.py", "exec"), known)
    assert known["labels"].shape == (40,)
    assert len(known["results"]["params"]) in (3, 5)
    assert 0 < dptune.PrivacyLedger(tmp_path / "ledger.db").spent() <= 1.0


def test_the_page_counts_the_lines_of_its_differences_whose_new_side_is_python():
    page = (Path(__file__).parents[2] / "docs" / "sklearn.md").read_text()
    told = re.findall(r"^\| [^|]+ \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    differences = [block.split("```")[0].splitlines() for block in page.split("```diff\n")[1:]]
    counted = [(sum(line[0] == "-" for line in one), sum(line[0] == "+" for line in one)) for one in differences]
    assert [(int(out), int(put)) for out, put in told] == counted
    assert len(counted) == 3
    for one in differences:
        compile("\n".join(line[1:] for line in one if line[0] != "-"), "sklearn.md", "exec")
