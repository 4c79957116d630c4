"""How large the product is: ``python -m benchmarks.size [REVISION …]``, of the working tree without one.

Counted are the Python modules of the product and their lines of code, without blank lines, comments and docstrings; and
how many modules have one importer among them. Of a revision, the files that git has of it.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).parent.parent
_PRODUCT: Final = ("worldledger", "projections", "service", "kinds")
#: Tokens that are no code.
_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


class Size(NamedTuple):
    """The counts of a set of modules."""

    modules: int
    code: int
    one_importer: int


def code_lines(source: str) -> int:
    """Return the number of lines of a module that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def _imported(source: str) -> Iterator[str]:
    """Yield what a module imports, with the names from there, which may be modules, too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _module(path: str) -> str:
    """Return a module's name: its path from the folder on whose name begins with ``worldledger``."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    first = next((at for at, part in enumerate(parts) if part.startswith("worldledger")), 0)
    return ".".join(parts[first:])


def size_of(sources: dict[str, str]) -> Size:
    """Count modules, given by their paths."""
    names = {_module(path) for path in sources}
    importers: dict[str, set[str]] = {name: set() for name in names}
    for path, source in sources.items():
        for name in {*_imported(source)} & names - {_module(path)}:
            importers[name].add(path)
    alone = sum(len(each) == 1 for each in importers.values())
    return Size(len(sources), sum(map(code_lines, sources.values())), alone)


def sources_of(revision: str | None) -> dict[str, str]:
    """Return the product's modules, by their paths, of a revision or of the working tree."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True).stdout

    listing = ("ls-files",) if revision is None else ("ls-tree", "-r", "--name-only", revision)
    paths = [path for path in git(*listing, "--", *_PRODUCT).splitlines() if path.endswith(".py")]
    if revision is None:
        return {path: (_ROOT / path).read_text(encoding="utf-8") for path in paths if (_ROOT / path).exists()}
    return {path: git("show", f"{revision}:{path}") for path in paths}


def main() -> None:
    """Print a line for each revision."""
    revisions: list[str | None] = [*sys.argv[1:]]
    for revision in revisions or [None]:
        modules, code, alone = size_of(sources_of(revision))
        print(f"{revision or 'here'}: {modules} modules, {code:,} lines of code, {alone} with one importer")


if __name__ == "__main__":
    main()
