"""What the site takes from outside of docs/: examples with their pictures, results of benchmarks, alerts, links that lead there, and what the code says of itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from reference import api, cli

ROOT = Path(__file__).parents[1]
TAKEN = ("examples", "benchmarks/results", "monitoring")
SHOWN = (".md", ".py", ".png", ".yaml", ".yml", ".json")


def on_files(files: Any, config: Any) -> Any:
    """They stand where they stand in the checkout."""
    for path in sorted(path for place in TAKEN for path in ROOT.glob(f"{place}/**/*")):
        if path.is_file() and path.suffix in SHOWN:
            files.append(File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)))
    for made in (api, cli):
        files.append(File.generated(config, f"{made.__name__.replace('.', '/')}.md", content=made.page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Beside the pages these are below them, not above; and the pages have no folder of their own."""
    for place in TAKEN:
        markdown = markdown.replace(f"](../{place}/", f"]({place}/")
    return markdown.replace("](../../docs/", "](../../")


def on_page_content(html: str, **_: Any) -> str:
    """Where a table is narrow, a path in it is broken after a slash or an underscore; `styles/tables.css` keeps words whole."""

    def breakable(code: re.Match[str]) -> str:
        return re.sub(r"([/_])(?=\w)", r"\1<wbr>", code[0])

    return re.sub(r"<td.*?</td>", lambda cell: re.sub(r"(?<=<code>)[^<]*", breakable, cell[0]), html, flags=re.DOTALL)
