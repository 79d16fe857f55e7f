"""Modules and functions stay small enough to be read: the hard limits of the house rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES, FUNCTION_LINES, PARAMETERS = 450, 55, 8
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> Iterator[Path]:
    for package in ("flows", "cells", "launchers", "scoring", "infra"):
        yield from sorted((ROOT / package).rglob("*.py"))


def functions() -> Iterator[tuple[str, Function]]:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, Function):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def parameters(function: Function) -> int:
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in modules()
        if (lines := len(path.read_text("utf-8").splitlines())) > MODULE_LINES
    }
    assert long == {}


def test_no_function_is_a_programme() -> None:
    assert {
        name: length
        for name, node in functions()
        if (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    } == {}


def test_no_function_takes_a_list_of_arguments_that_nobody_can_read() -> None:
    assert {name: count for name, node in functions() if (count := parameters(node)) > PARAMETERS + 1} == {}


def test_every_module_says_what_it_holds() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in modules()
        if path.read_text("utf-8").strip() and not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert silent == []
