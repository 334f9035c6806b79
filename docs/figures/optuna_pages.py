"""Draw the pictures of docs/optuna.md: ``python docs/figures/optuna_pages.py study.db``, of examples/svm_optuna.py.

Needs Chromium and ``pip install optuna-dashboard``; neither is among dptune's extras.
"""

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

STUDY = sys.argv[1] if len(sys.argv) > 1 else "study.db"
PAGES = {"optuna_history.png": ("", "1400,640"), "optuna_note.png": ("/note", "1400,520")}
ADDRESS = "http://127.0.0.1:8123/dashboard/studies/1"
BROWSER = ["chromium", "--headless", "--no-sandbox", "--virtual-time-budget=20000"]

dashboard = Path(sys.executable).with_name("optuna-dashboard")
server = subprocess.Popen([dashboard, f"sqlite:///{STUDY}", "--port", "8123", "--quiet"])
try:
    while server.poll() is None:
        try:
            urllib.request.urlopen(ADDRESS).close()
            break
        except OSError:
            time.sleep(0.5)
    for picture, (page, size) in PAGES.items():
        shot = f"--screenshot={Path(__file__).parent / picture}"
        subprocess.run([*BROWSER, f"--window-size={size}", shot, ADDRESS + page], check=True, stderr=subprocess.DEVNULL)
finally:
    server.terminate()
