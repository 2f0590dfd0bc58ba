"""What the site takes from outside of docs/: the examples with their pictures, and links that lead there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]


def on_files(files: Any, config: Any) -> Any:
    """Each example's pages, code and picture stand below examples/."""
    for path in sorted(ROOT.glob("examples/**/*")):
        if path.is_file() and path.suffix in (".md", ".py", ".png", ".yaml"):
            files.append(File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Beside the pages the examples are below them, not above."""
    return markdown.replace("](../examples/", "](examples/")
