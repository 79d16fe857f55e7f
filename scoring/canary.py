"""The canary of a pytest verifier: a test that must fail, made anew for each run out of a hidden test, named like its
neighbours.

Rules:
1. It is an inverted copy of a test that must pass before and after: every assertion turned round, and one that cannot
   hold
   at its end. It stands in the file of the original, so that whoever forges results for that file forges the canary's
   too.
2. Where no such test can be found in the sealed files, it is a file of its own beside them whose only test always
   fails.
3. The pinned test, which must pass on the base, is the original of the canary, or else the first expected one.
4. The name is drawn from the generator that is passed in; nothing of it is known before the run.
"""

from __future__ import annotations

import ast
import copy
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

_WORDS = (
    "again", "also", "basic", "both", "case", "default", "direct", "edge", "empty", "first", "full", "inner", "large",
    "last", "later", "long", "mixed", "more", "nested", "other", "outer", "pair", "plain", "second", "short", "simple",
    "single", "small", "twice", "whole",
)  # fmt: skip
_AVOIDED = ("skip", "xfail", "usefixtures", "flaky", "given", "patch")


# CPython 3.11 counts the depth of a syntax tree for the whole interpreter: two threads that build one at the same
# moment can end in a SystemError.
_ONE_TREE = threading.Lock()


@dataclass(frozen=True)
class Canary:
    """`path` and `content` are laid over the tree; `name` stands in the canary's id in the report and in no other."""

    path: bytes
    content: bytes
    name: str
    pinned: str | None
    select: tuple[tuple[tuple[str, str], ...], ...]
    """Arguments that make pytest run canary and pinned test only: for each a list of alternatives `(file,
    argument)`."""
    inverted: bool

    def results(self, tests: Mapping[str, str]) -> set[str]:
        """What a report says of it: one result a parameter set, none when it is missing."""
        word = re.compile(rf"\b{re.escape(self.name)}\b")
        return {result for test, result in tests.items() if word.search(test)}


@dataclass(frozen=True)
class _Found:
    """A test function in a sealed file."""

    test: str
    path: bytes
    classes: tuple[ast.ClassDef, ...]
    function: ast.FunctionDef | ast.AsyncFunctionDef


def make_canary(files: Mapping[bytes, bytes], f2p: Sequence[str], p2p: Sequence[str], random: Random) -> Canary:
    """A canary for a set of sealed Python files (path in the tree -> content) and the expected tests."""
    for found in _originals(files, p2p):
        canary = _inverted(files[found.path], found, random)
        if canary is not None:
            return canary
    return _standing_alone(files, [*p2p, *f2p], p2p, random)


def from_template(template: bytes, p2p: Sequence[str], random: Random) -> Canary:
    """A canary out of a task's template: its first line says `assay-canary: PATH`, and `{name}` in path and text is the
    drawn name, which the id of the failing test must hold. ValueError when the line is missing."""
    head = re.match(rb"[^\n]*assay-canary:[ \t]*(\S+)", template)
    if head is None:
        raise ValueError("the first line of a canary's template must hold `assay-canary: PATH`")
    name = "_".join(random.sample(_WORDS, 3))
    path, content = (part.replace(b"{name}", name.encode()) for part in (head[1], template))
    return Canary(path, content, name, next(iter(p2p), None), (), inverted=False)


def syntax_tree(source: str | bytes) -> ast.Module:
    """`ast.parse`, safe to call from several workers. SyntaxError, ValueError, RecursionError as it raises them."""
    with _ONE_TREE:
        return ast.parse(source)


def nodes_of(test: str) -> tuple[tuple[str, str], ...]:
    """The pytest arguments that may mean a report id, longest module first: `[file, file::Class::name]`."""
    classname, _, name = test.partition("::")
    parts = classname.split(".") if classname else []
    nodes = []
    for length in range(len(parts), 0, -1):
        file = "/".join(parts[:length]) + ".py"
        nodes.append((file, "::".join([file, *parts[length:], name])))
    return tuple(nodes)


def modules_of(tests: Sequence[str]) -> frozenset[str]:
    """Dotted names of the modules that expected tests stand in: class names, which begin with a capital, are taken
    off."""
    found = set()
    for test in tests:
        parts = test.partition("::")[0].split(".")
        while len(parts) > 1 and parts[-1][:1].isupper():
            parts.pop()
        found.add(".".join(parts))
    return frozenset(found - {""})


def _originals(files: Mapping[bytes, bytes], p2p: Sequence[str]) -> Iterator[_Found]:
    """Tests that can be copied, plain ones before parametrized ones."""
    trees: dict[bytes, ast.Module | None] = {}
    for test in sorted(p2p, key=lambda name: "[" in name):
        for file, _ in nodes_of(test):
            path = file.encode("utf-8", "surrogateescape")
            if path not in files:
                continue
            if path not in trees:
                trees[path] = _parsed(files[path])
            tree = trees[path]
            if tree is not None and (found := _locate(tree, path, test, file)) is not None:
                yield found


def _parsed(content: bytes) -> ast.Module | None:
    try:
        return syntax_tree(content)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _locate(tree: ast.Module, path: bytes, test: str, file: str) -> _Found | None:
    classname, _, name = test.partition("::")
    wanted = classname.split(".")[file.count("/") + 1 :]
    body: Sequence[ast.stmt] = tree.body
    classes: list[ast.ClassDef] = []
    for part in wanted:
        inner = next((one for one in body if isinstance(one, ast.ClassDef) and one.name == part), None)
        if inner is None:
            return None
        classes.append(inner)
        body = inner.body
    plain = name.split("[")[0]
    for one in body:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name == plain and _can_be_copied(one):
            return _Found(test, path, tuple(classes), one)
    return None


def _can_be_copied(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function))
    return not yields and not any(word in decorators for word in _AVOIDED)


def _inverted(content: bytes, found: _Found, random: Random) -> Canary | None:
    """The file with the inverted copy at the end of its module or class; None when it does not parse any more."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    name = _fresh_name(found.function.name, text, random)
    source = ast.unparse(_invert(found.function, name, random))
    lines = text.split("\n")
    if found.classes:
        first = found.function.decorator_list[0] if found.function.decorator_list else found.function
        line = lines[first.lineno - 1]
        indent = line[: len(line) - len(line.lstrip())]
        end = found.classes[-1].end_lineno or len(lines)
        lines[end:end] = ["", *[indent + one if one else one for one in source.split("\n")]]
    else:
        lines += ["", "", *source.split("\n"), ""]
    changed = "\n".join(lines).encode("utf-8")
    if _parsed(changed) is None:
        return None
    file = found.path.decode("utf-8", "surrogateescape")
    node = "::".join([file, *(one.name for one in found.classes), name])
    pinned = tuple(one for one in nodes_of(found.test) if one[0] == file)
    return Canary(found.path, changed, name, found.test, (pinned, ((file, node),)), inverted=True)


class _Inverter(ast.NodeTransformer):
    """Turns the assertions of one function round and makes its returns fail; functions inside it stay as they are."""

    def __init__(self, impossible: ast.stmt) -> None:
        self._impossible = impossible

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        return ast.Assert(ast.UnaryOp(ast.Not(), node.test), node.msg)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        return copy.deepcopy(self._impossible)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node


def _invert(
    function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, random: Random
) -> ast.FunctionDef | ast.AsyncFunctionDef:
    impossible = syntax_tree(_impossible(random)).body[0]
    changed = copy.deepcopy(function)
    inverter = _Inverter(impossible)
    body: list[ast.stmt] = [inverter.visit(statement) for statement in changed.body]
    changed.name, changed.body = name, [*body, impossible]
    return ast.fix_missing_locations(changed)


def _impossible(random: Random) -> str:
    word = random.choice(_WORDS)
    return f"assert len({word!r}) == {len(word) + 1 + random.randrange(90)}"


def _fresh_name(original: str, text: str, random: Random) -> str:
    """A name as its neighbours have, that stands nowhere in the file."""
    begin, _, end = original.rpartition("_") if original.endswith(("_test", "_tests")) else (original, "", "")
    while True:
        words = "_".join(random.sample(_WORDS, 2))
        name = f"{begin}_{words}_{end}" if end else f"{begin}_{words}"
        if name not in text:
            return name


def _standing_alone(files: Mapping[bytes, bytes], tests: Sequence[str], p2p: Sequence[str], random: Random) -> Canary:
    """A file beside the first sealed test file (or at the top), with one test that always fails."""
    neighbours = sorted(path for path in files if path.rpartition(b"/")[2].startswith(b"test_"))
    expected = {file.encode("utf-8", "surrogateescape") for test in tests for file, _ in nodes_of(test)}
    nearest = next((path for path in neighbours if path in expected), neighbours[0] if neighbours else b"test_all.py")
    taken = b"\0".join(files).decode("utf-8", "replace")
    stem = _fresh_name(nearest.rpartition(b"/")[2].removesuffix(b".py").decode("utf-8", "replace"), taken, random)
    path = nearest.rpartition(b"/")[0] + b"/" * (b"/" in nearest) + stem.encode("utf-8") + b".py"
    file = path.decode("utf-8", "surrogateescape")
    name = f"test_{'_'.join(random.sample(_WORDS, 2))}"
    content = f"def {name}():\n    {_impossible(random)}\n".encode()
    pinned = min(p2p, key=lambda test: ("[" in test, len(test)), default=None)
    select = ([nodes_of(pinned)] if pinned is not None else []) + [((file, f"{file}::{name}"),)]
    return Canary(path, content, name, pinned, tuple(select), inverted=False)
