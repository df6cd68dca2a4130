"""The suite read as text: each scenario's number, promise, test and mark. It imports no test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = Path(__file__).parent
_NAME = re.compile(r"test_(\d\d)_\w+")


@dataclass(frozen=True, slots=True)
class Promise:
    """One test.

    Attributes:
        text: the promise, in plain words.
        needs: what it needs that a healthy cluster does not do, '' where it runs against a real one.
    """

    number: int
    text: str
    file: str
    test: str
    needs: str


def promises() -> list[Promise]:
    """Every test of the suite by number.

    Raises:
        ValueError: one has no number, no promise or no mark, and its name.
    """
    found = [promise for path in sorted(SUITE.glob("test_*.py")) for promise in _in(path)]
    return sorted(found, key=lambda promise: promise.number)


def _in(path: Path) -> Iterator[Promise]:
    module = ast.parse(path.read_text())
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            named = _NAME.fullmatch(node.name)
            said = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
            if not named or not said:
                raise ValueError(f"{path.name}: {node.name} wants a number and a promise")
            yield Promise(int(named[1]), said, str(path.relative_to(ROOT)), node.name, _needs(path, node))


def _needs(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    for mark in node.decorator_list:
        text = ast.unparse(mark)
        if text == "pytest.mark.cluster":
            return ""
        if text.startswith("pytest.mark.simulated(") and isinstance(mark, ast.Call):
            reason = ast.literal_eval(mark.args[0])
            return str(reason)
    raise ValueError(f"{path.name}: {node.name} is neither marked cluster nor simulated")
