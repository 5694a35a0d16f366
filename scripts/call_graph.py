"""A static call graph of `core` and `engine`: which files a reader opens to follow one path.

A node is a top-level function, class, constant or method. An edge is a name that the node's code uses: a name
of its own module, an imported name, `module.name`, `self.name`, or a method of an imported class, where only
one such class has a method of that name. Functions that are passed on or kept in a table count as used, and
so do the methods of a class that is made for a protocol of `core` or `engine`, wherever it is used. The graph
does not follow calls through a port: a path ends where the engine calls one.

A walk is the union of the shortest call paths from its start to each of its ends. The ends are the steps that
a reader wants to see on the way. Counts of two revisions can be compared; they are not counts of all code
that runs.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOMS = ("core", "engine")

Place = tuple[str, str]
"""The module and the name within it: `("ebbtide.engine.tick", "tick")`."""


@dataclass(frozen=True)
class Walk:
    name: str
    start: str
    """Module's last part and function."""
    ends: tuple[str, ...]
    """Names of functions or methods, with the module's last part where others have the same name."""


WALKS = (
    Walk(
        "tick to eviction",
        "tick.tick",
        (
            "observe",
            "decide",
            "choose_targets",
            "keeps_zones",
            "within_budget",
            "removals._evict",
            "rounds._round",
            "rounds._do",
        ),
    ),
    Walk(
        "spot notice to launch",
        "notices.answer_notices",
        ("observe", "spot.take_in", "_with_replacement", "slots._launching", "rounds._round", "rounds._do"),
    ),
    Walk(
        "wake to replicas",
        "scaling.Scaling.wake",
        ("wake.wake", "wake.targets", "rounds._round", "_restore", "wake.ready", "save"),
    ),
    Walk(
        "consolidation to moved pod",
        "tick.tick",
        (
            "evaluate.evaluated",
            "look.look",
            "look.build",
            "sweep",
            "replaced",
            "choose._frontier",
            "why_not_fitting",
            "evaluate.cooled_down",
            "moves.mark",
            "next_moves",
            "eviction",
            "note_leaving",
            "rounds._round",
            "rounds._do",
        ),
    ),
)


@dataclass
class _Module:
    name: str
    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict)
    """What a name stands for: a module, or `module:name`."""


class CallGraph:
    def __init__(self, package: Path) -> None:
        self._modules = {each.name: each for each in _modules(package)}
        self._bodies: dict[Place, ast.AST] = {}
        self._methods: dict[str, list[Place]] = {}
        self._classes: dict[Place, list[Place]] = {}
        """Each with its methods."""
        self._protocols: list[set[str]] = []
        """The names of the methods of each."""
        for module in self._modules.values():
            self._define(module)
        self.edges: Mapping[Place, set[Place]] = {
            place: {*self._used(place, body), *self._asked_for(place)} for place, body in self._bodies.items()
        }

    def files_on(self, walk: Walk) -> list[str]:
        """The modules of the shortest call path to each end, in order of their names."""
        starts = [place for place in self.edges if f"{place[0].split('.')[-1]}.{place[1]}" == walk.start]
        came_from: dict[Place, Place | None] = dict.fromkeys(starts)
        todo = deque(starts)
        found: dict[str, Place] = {}
        while todo:
            here = todo.popleft()
            name = here[1].split(".")[-1]
            found.setdefault(name, here)
            found.setdefault(f"{here[0].split('.')[-1]}.{name}", here)
            for each in sorted(self.edges[here] - came_from.keys()):
                came_from[each] = here
                todo.append(each)
        missing = sorted(set(walk.ends) - found.keys())
        if missing:
            raise LookupError(f"{walk.name}: no call leads from {walk.start} to {', '.join(missing)}")
        files: set[str] = set()
        for end in walk.ends:
            step: Place | None = found[end]
            while step is not None:
                files.add(step[0])
                step = came_from[step]
        return sorted(files)

    def _define(self, module: _Module) -> None:
        for node in module.tree.body:
            match node:
                case ast.FunctionDef(name=name):
                    self._bodies[module.name, name] = node
                case ast.ClassDef(name=name):
                    self._define_class(module, node)
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    self._bodies[module.name, name] = node
                case ast.Import(names=names):
                    module.imported |= {each.asname or each.name: each.name for each in names}
                case ast.ImportFrom(module=source, names=names):
                    for each in names:
                        whole = f"{source}.{each.name}"
                        known = whole in self._modules
                        module.imported[each.asname or each.name] = (
                            whole if known else f"{source}:{each.name}"
                        )

    def _define_class(self, module: _Module, node: ast.ClassDef) -> None:
        head = [each for each in node.body if not isinstance(each, ast.FunctionDef)]
        self._bodies[module.name, node.name] = ast.Module(head, [])
        places = []
        for method in node.body:
            if isinstance(method, ast.FunctionDef):
                place = (module.name, f"{node.name}.{method.name}")
                self._bodies[place] = method
                self._methods.setdefault(method.name, []).append(place)
                places.append(place)
        if any("Protocol" in ast.unparse(base) for base in node.bases):
            self._protocols.append({_last(place) for place in places})
        else:
            self._classes[module.name, node.name] = places

    def _asked_for(self, place: Place) -> list[Place]:
        """The methods of a class through which a protocol is used."""
        methods = self._classes.get(place, [])
        names = {_last(method) for method in methods}
        return methods if any(wanted and wanted <= names for wanted in self._protocols) else []

    def _used(self, place: Place, body: ast.AST) -> Iterator[Place]:
        module = self._modules[place[0]]
        owner = place[1].split(".")[0]
        for node in ast.walk(body):
            found: Place | None = None
            match node:
                case ast.Name(id=name):
                    found = self._named(module, name)
                case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                    found = (module.name, f"{owner}.{attr}")
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in module.imported:
                    found = (module.imported[name], attr)
                case ast.Attribute(attr=attr):
                    found = self._method(module, attr, place)
            if found in self._bodies and found != place:
                yield found

    def _named(self, module: _Module, name: str) -> Place:
        source, _, imported = module.imported.get(name, "").partition(":")
        return (source, imported) if imported else (module.name, name)

    def _method(self, module: _Module, attr: str, user: Place) -> Place | None:
        known = {module.name, *(each.partition(":")[0] for each in module.imported.values())}
        found = [place for place in self._methods.get(attr, ()) if place[0] in known and place != user]
        return found[0] if len(found) == 1 else None


def _last(place: Place) -> str:
    return place[1].split(".")[-1]


def _modules(package: Path) -> Iterator[_Module]:
    for room in ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
            yield _Module(name, ast.parse(path.read_text("utf-8")))
