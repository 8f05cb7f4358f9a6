"""Who may import whom (docs/design.md, "Rooms"): nothing imports upwards, no two files import each other in a loop,
and the strategies can be lifted out.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "translations": set[str](),
    "labs": {"translations"},
    "certificates": {"translations"},
    "quiz": {"translations", "labs"},
    "lessons": {"translations", "labs", "quiz"},
    "shardwise": {"translations", "labs", "certificates", "quiz", "lessons"},
}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for room in MAY_IMPORT
    for path in sorted((ROOT / room).rglob("*.py"))
}


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    """Every module of ours that a file imports. Imports for type checkers alone are no dependency."""
    found = set[str]()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if top_level_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(names & MODULES.keys())
            found.update({node.module} if not names <= MODULES.keys() else set())
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return {name for name in found if name.split(".")[0] in MAY_IMPORT}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_nothing_imports_upwards(room: str) -> None:
    for name, path in MODULES.items():
        if name.split(".")[0] == room:
            upwards = {found for found in imports(path) if found.split(".")[0] not in MAY_IMPORT[room] | {room}}
            assert not upwards, f"{name} imports {sorted(upwards)}"


def test_strategies_import_only_their_own_folder() -> None:
    for name, path in MODULES.items():
        if name.startswith("labs.strategies"):
            strangers = {found for found in imports(path) if not found.startswith("labs.strategies")}
            assert not strangers, f"{name} imports {sorted(strangers)}"


def test_no_two_files_import_each_other_in_a_loop() -> None:
    graph = {name: imports(path, top_level_only=True) & MODULES.keys() - {name} for name, path in MODULES.items()}
    done, on_the_way = set[str](), list[str]()

    def walk(name: str) -> None:
        if name in done:
            return
        assert name not in on_the_way, " -> ".join([*on_the_way[on_the_way.index(name) :], name])
        on_the_way.append(name)
        for needed in sorted(graph[name]):
            walk(needed)
        on_the_way.pop()
        done.add(name)

    for name in sorted(graph):
        walk(name)
