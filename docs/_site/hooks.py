"""What the site adds to its pages: front page, reference, and files of the repository that pages link to."""

from __future__ import annotations

import importlib
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
REFERENCE = {  # page -> title, packages
    "dptune": ("Common names", ["dptune"]),
    "dptune_optuna": ("Optuna", ["dptune_optuna"]),
    "dptune_ray": ("Ray Tune", ["dptune_ray"]),
    "dptune_sklearn": ("scikit-learn", ["dptune_sklearn"]),
    "dptune_mlflow": ("MLflow", ["dptune_mlflow"]),
    "search": (
        "Searches, algorithms and questions",
        ["dptune.search", "dptune.privacy", "dptune.search.gp"],
    ),
    "ledgers": (
        "Ledgers, certificates, reports, private training",
        ["dptune.ledger", "dptune.choice", "dptune.audit", "dptune.training"],
    ),
    "trust": (
        "Other trust models",
        ["dptune.local", "dptune.federated", "dptune.outsourced"],
    ),
    "errors": ("Errors", ["dptune.errors"]),
}
FIGURE = re.compile(r"<img [^>]*src=\"((?:\.\./)*figures/)([\w-]+)(\.\w+)\"[^>]*>")
NARROW = '<picture><source media="(max-width: 44.9375em)" srcset="{}">{}</picture>'
CELL, CODE = re.compile(r"<td.*?</td>", re.DOTALL), re.compile(r"(?<=<code>)[^<]+(?=</code>)")
LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)")
WHOLE = re.compile(r"(?<=\w) (to|=) (?=-?[\d.])")  # 0.1 to 0.2; mu = 1
ROLE = re.compile(r":\w+:<code>~?([\w.]+)</code>")
ERROR = re.compile(r"(?<=\d) ± (?=[\d.])")  # a mean's
SEVERAL = re.compile(r"<b><code>(?:<[^>]*>)*(\w+),(?:<[^>]*>)*</code></b>\s*\(<code>(.*?)</code>\)")  # attributes
OUTSIDE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=[\"']?https?:[^>]*>(?:</script>)?")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as the front page, the reference, and every file outside ``docs`` that a page links to."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    readme = re.sub(r"\]\((?!https?:|docs/|#)", "](../", readme).replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=readme))
    for page, (title, packages) in REFERENCE.items():
        files.append(File.generated(config, f"reference/{page}.md", content=_reference(title, packages)))
    linked = {link for file in files.documentation_pages() if file.src_uri.endswith(".md") for link in _outside(file)}
    for path in sorted(linked):
        content = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, f"source/{path}.txt", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave ``docs`` to the copies in the site."""
    up = posixpath.dirname(page.file.src_uri)

    def copied(link: re.Match[str]) -> str:
        path = _inside(link[1], up)
        return link[1] if path.startswith("docs/") else f"{posixpath.relpath('source/' + path, up or '.')}.txt"

    return LINK.sub(copied, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show roles of docstrings, as :class:`~dptune.Budget`, by the last part; keep names that share a line together.

    Names of code in a table may break at their joints. A figure with a narrow form has it on a phone.
    """
    html = SEVERAL.sub(lambda names: f"<b><code>{names[1]}, {re.sub('<[^>]*>|[()]', '', names[2])}</code></b>", html)
    html = ROLE.sub(lambda role: f"<code>{role[1].rpartition('.')[2] if '~' in role[0] else role[1]}</code>", html)
    html = CELL.sub(lambda cell: _narrow_cell(cell[0]), html)
    html = FIGURE.sub(_with_narrow, html)
    return ERROR.sub("&nbsp;±&nbsp;", html.replace("::</p>", ":</p>"))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Take out what notebooks would load from outside to draw formulas, of which we have none; refuse the rest."""
    output = re.sub(r"<script[^>]*mathjax[^>]*></script>", "", output, flags=re.IGNORECASE)
    if found := OUTSIDE.search(output):
        raise PluginError(f"{page.file.src_uri} would load from outside: {found[0][:200]}")
    return output


def _narrow_cell(cell: str) -> str:
    """A cell whose names of code may break at their joints; an equation stays whole, an interval breaks after "to"."""
    cell = CODE.sub(lambda code: re.sub(r"(?<=[_.(,=/])(?=\w)", "<wbr>", code[0]), cell)
    return WHOLE.sub(lambda found: "&nbsp;=&nbsp;" if found[1] == "=" else "&nbsp;to ", cell)


def _with_narrow(image: re.Match[str]) -> str:
    """The image, with `<name>-narrow` for a phone if there is such a file."""
    folder, name, ending = image.groups()
    narrow = f"{name}-narrow{ending}"
    return NARROW.format(folder + narrow, image[0]) if (ROOT / "docs" / "figures" / narrow).exists() else image[0]


def _reference(title: str, packages: list[str]) -> str:
    """The page of these packages: each public name, in the order of ``__all__``."""
    lines = [f"# {title}"]
    for name in packages:
        package = importlib.import_module(name)
        names = getattr(package, "__all__", [each for each in vars(package) if each[0].isupper()])
        lines += [f"## {name}", *([str(package.__doc__)] if len(packages) > 1 else [])]
        lines += [f"::: {name}.{each}\n    options: {{heading_level: 3}}" for each in names]
    return "\n\n".join(lines)


def _outside(file: File) -> list[str]:
    """Paths in the repository of what a page links to outside ``docs``."""
    linked = (_inside(link, posixpath.dirname(file.src_uri)) for link in LINK.findall(file.content_string))
    return [path for path in linked if not path.startswith("docs/")]


def _inside(link: str, folder: str) -> str:
    return posixpath.relpath(posixpath.join("docs", folder, link), ".")
