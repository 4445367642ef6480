"""Wrong versions of a Triton kernel, generated from its source, for its gate to refuse.

Every place where a rule applies gives a mutant with one change: comparisons and masks, operands of
sums and products (a rescaling dropped, heads mapped wrongly), the first and the last tile of a
loop, strides swapped, constants off by one, statements left out. Functions under `triton.jit` are
changed, and the launches in the launcher. Nothing is picked by hand.

Casts are left alone: what 64-bit offsets are for shows at sizes alone that no interpreter reaches,
and a rounding that is missing only adds precision.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass

_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.FloorDiv: ast.Mod, ast.Mod: ast.FloorDiv,
    ast.Div: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitXor: ast.BitAnd,
}  # fmt: skip
_DROPPED = (ast.Mult, ast.BitAnd, ast.BitOr)
_EXTREMA = {
    "minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min", "sum": "max",
    "argmax": "argmin", "argmin": "argmax",
}  # fmt: skip
_STRIDE = re.compile(r"(\w+)_([a-z])")


@dataclass(frozen=True)
class Mutant:
    """One change of one function, told by the statement it is in before and after."""

    module: str  # dotted name
    function: str
    rule: str
    before: str
    after: str
    occurrence: int  # among equal changes of the function, from 0
    lines: range  # of the statement in the module's own source; of a loop or condition, its head
    source: str  # of the whole module with the change

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What names it, whatever happens elsewhere in the source."""
        return self.module, self.function, self.before, self.after, self.occurrence


# A rule's name, and what it puts in a node's place.
_Change = tuple[str, ast.AST]


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of one module of a kernel, in the order of its source."""
    tree, lines = ast.parse(source), source.splitlines()
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    kernels = {node.name for node in functions if _jitted(node)}
    found: list[Mutant] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for function in functions:
        parents = {
            child: parent for parent in ast.walk(function) for child in ast.iter_child_nodes(parent)
        }
        for statement in _statements(function):
            jitted = function.name in kernels
            # Of the launcher only the launches: the rest checks, and chooses tiles.
            if not jitted and not _launches(statement, kernels):
                continue
            for node, rule, new in list(_changes(statement, function, jitted=jitted)):
                before = _head(statement)
                with _replaced(parents[node], node, new):
                    after = _head(new if node is statement else statement)
                    changed = ast.unparse(ast.fix_missing_locations(function))
                if before == after:
                    continue
                told = (function.name, before, after)
                first = function.decorator_list[0] if function.decorator_list else function
                text = [*lines[: first.lineno - 1], changed, *lines[function.end_lineno :]]
                whole = "\n".join(text) + "\n"
                found.append(
                    Mutant(
                        module, function.name, rule, before, after, seen[told], _lines(statement),
                        whole,
                    )
                )  # fmt: skip
                seen[told] += 1
    return found


def instrumented(source: str, name: str) -> str:
    """The source with a call of `name`, with its line, before every statement of its kernels."""
    tree = ast.parse(source)
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef) or not _jitted(function):
            continue
        for node in list(ast.walk(function)):
            for field in ("body", "orelse"):
                block = getattr(node, field, None)
                if not isinstance(node, ast.stmt) or not block:
                    continue
                told = [[_call(name, each.lineno), each] for each in block]
                setattr(node, field, [each for pair in told for each in pair])
    return ast.unparse(ast.fix_missing_locations(tree))


def _call(name: str, number: int) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), [ast.Constant(number)], []))


def _jitted(function: ast.FunctionDef) -> bool:
    return any("triton.jit" in ast.unparse(each) for each in function.decorator_list)


def _launches(statement: ast.stmt, kernels: Container[str]) -> bool:
    """Whether a statement is `kernel[grid](...)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    name = function.value if isinstance(function, ast.Subscript) else None
    return isinstance(name, ast.Name) and name.id in kernels


def _statements(function: ast.AST) -> Iterator[ast.stmt]:
    """Statements within, outer before inner, without docstrings."""
    for node in ast.walk(function):
        for name in ("body", "orelse"):
            for each in getattr(node, name, None) or [] if isinstance(node, ast.stmt) else []:
                text = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
                if not text:
                    yield each


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Expressions of a statement itself: of a loop or a condition, its head alone."""
    waiting: list[ast.AST] = [
        child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)
    ]
    if isinstance(statement, ast.AnnAssign):
        waiting = [] if statement.value is None else [statement.value]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.expr):
            yield node
        # Shapes of tiles, [:, None] and the like, are no arithmetic of the kernel; warps and stages
        # change no number.
        if isinstance(node, ast.keyword) and node.arg in ("num_warps", "num_stages"):
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple | ast.Slice):
            waiting.append(node.value)
        else:
            waiting += ast.iter_child_nodes(node)


def _changes(
    statement: ast.stmt, function: ast.FunctionDef, *, jitted: bool
) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    if jitted:
        for rule, new in _of_statement(statement, function):
            yield statement, rule, new
    names = [each.arg for each in function.args.args]
    for node in _expressions(statement):
        for rule, new in _of_expression(node, names):
            yield node, rule, new


def _of_statement(statement: ast.stmt, function: ast.AST) -> Iterator[_Change]:
    rebinds = isinstance(statement, ast.AugAssign) or (
        isinstance(statement, ast.Assign) and _bound_before(statement, function)
    )
    leaves = isinstance(statement, ast.Return) and statement.value is None
    if rebinds or leaves or isinstance(statement, ast.Expr):
        yield "statement dropped", ast.Pass()
    if isinstance(statement, ast.AugAssign) and type(statement.op) in _ARITHMETIC:
        other = copy(statement)
        other.op = _ARITHMETIC[type(statement.op)]()
        yield "arithmetic", other
    if isinstance(statement, ast.If):
        negated = copy(statement)
        negated.test = ast.UnaryOp(ast.Not(), negated.test)
        yield "condition negated", negated


def _bound_before(statement: ast.Assign, function: ast.AST) -> bool:
    """Whether the names that it binds have a value without it already."""
    earlier = {
        node.id
        for each in ast.walk(function)
        if isinstance(each, ast.Assign | ast.AugAssign) and each.lineno < statement.lineno
        for node in ast.walk(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    earlier |= {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    bound = [
        node.id
        for target in statement.targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name)
    ]
    return bool(bound) and all(name in earlier for name in bound)


def _of_expression(node: ast.expr, names: Sequence[str]) -> Iterator[_Change]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = _COMPARISONS.get(type(node.ops[0]))
        if other is not None:
            yield "comparison", ast.Compare(node.left, [other()], node.comparators)
    elif isinstance(node, ast.BinOp):
        if type(node.op) in _ARITHMETIC:
            swapped = _ARITHMETIC[type(node.op)]()
            yield "arithmetic", ast.BinOp(node.left, swapped, node.right)
        if isinstance(node.op, _DROPPED):
            yield "operand dropped", node.left
            yield "operand dropped", node.right
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            yield "constant", ast.Constant(node.value + 1)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for other_name in _other_strides(node.id, names):
            yield "stride swapped", ast.Name(other_name, ast.Load())
    elif isinstance(node, ast.IfExp):
        yield "branches swapped", ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)


def _of_call(call: ast.Call) -> Iterator[_Change]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if name == "float" and isinstance(call.args[0], ast.Constant):
        yield "constant", ast.Constant(0.0)
        return
    if not isinstance(call.func, ast.Attribute):
        return
    if name in _EXTREMA:
        function = ast.Attribute(call.func.value, _EXTREMA[name], ast.Load())
        yield "extremum", ast.Call(function, call.args, call.keywords)
    for keyword in call.keywords:
        # Without `other` the interpreter reads zeros: a change of it is a constant's.
        if keyword.arg == "mask":
            rest = [each for each in call.keywords if each is not keyword]
            yield "mask dropped", ast.Call(call.func, call.args, rest)
    if name == "where":
        condition, one, other = call.args
        yield "branches swapped", ast.Call(call.func, [condition, other, one], [])
    elif name == "range" and len(call.args) == 3:
        first, last, step = call.args
        later, sooner = ast.BinOp(first, ast.Add(), step), ast.BinOp(last, ast.Sub(), step)
        yield "first tile dropped", ast.Call(call.func, [later, last, step], [])
        yield "last tile dropped", ast.Call(call.func, [first, sooner, step], [])
    elif name == "cdiv":
        yield "arithmetic", ast.BinOp(call.args[0], ast.FloorDiv(), call.args[1])
    elif name == "trans":
        yield "operand dropped", call.args[0]


def _other_strides(name: str, names: Sequence[str]) -> Iterator[str]:
    """The next stride of the same tensor, and the same of the next tensor."""
    parts = _STRIDE.fullmatch(name)
    if parts is None or name not in names:
        return
    tensor, axis = parts.groups()
    strides = [match.groups() for match in map(_STRIDE.fullmatch, names) if match]
    for same in ([s for s in strides if s[0] == tensor], [s for s in strides if s[1] == axis]):
        other = same[(same.index((tensor, axis)) + 1) % len(same)]
        if other != (tensor, axis):
            yield "_".join(other)


def _lines(statement: ast.stmt) -> range:
    body = getattr(statement, "body", None)
    end = body[0].lineno if body else (statement.end_lineno or statement.lineno) + 1
    return range(statement.lineno, max(end, statement.lineno + 1))


@contextmanager
def _replaced(parent: ast.AST, node: ast.AST, new: ast.AST) -> Iterator[None]:
    """Within, another node stands where this one stood."""
    for name, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, name, new)
            yield
            setattr(parent, name, node)
            return
        if isinstance(value, list) and node in value:
            place = value.index(node)
            value[place] = new
            yield
            value[place] = node
            return


def _head(statement: ast.AST) -> str:
    """A statement in one line; of a loop or a condition its first."""
    return ast.unparse(ast.fix_missing_locations(statement)).splitlines()[0]
