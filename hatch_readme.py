"""The README as a package index shows it: without pictures and relative links, which only a checkout can follow."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE, LINK = (
    r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n(?:Figure: .*?\n\n)?",
    r"\[([^\]]*)\]\((?!https?:)[^)]*\)",
)


class Readme(MetadataHookInterface):
    """What hatchling asks for the project's description."""

    def update(self, metadata: dict) -> None:
        """Put the README in."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        alone = re.sub(LINK, r"\1", re.sub(PICTURE, "", text, flags=re.DOTALL))
        metadata["readme"] = {"content-type": "text/markdown", "text": alone}
