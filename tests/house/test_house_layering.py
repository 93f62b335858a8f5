"""Who may import what. Imports point one way: commands, services, plan, translation."""

import ast
import re
import sys

import pytest

OWNERS = {
    "pyspark": ("mmtool.replication", "mmtool.insight.verify", "mmtool.insight.offset_map"),
    "py4j": ("mmtool.replication", "mmtool.insight.verify", "mmtool.keystores"),
    "pandas": ("mmtool.replication", "mmtool.insight.verify", "mmtool.insight.offset_map"),
    "pyarrow": ("mmtool.replication", "mmtool.insight.verify", "mmtool.transforms"),
    "confluent_kafka": ("mmtool.kafka", "mmtool.lab", "kit"),
    "aiokafka": ("mmtool.kafka", "kit"),
    "cryptography": ("mmtool.keystores", "mmtool.evidence", "mmtool.lab.security", "kit"),
    "pydantic": ("mmtool.config",),
    "typer": ("mmtool.commands", "kit.command_tree"),
    "rich": ("mmtool.output",),
    "jinja2": ("mmtool.output",),
    "markupsafe": ("mmtool.evidence",),
    "hypothesis": ("kit",),
    "prometheus_client": ("mmtool.metrics",),
    "yaml": ("mmtool.importers.core", "kit"),
    "click": (),
    "shlex": ("mmtool.plain_text", "kit"),
    "kit": ("kit",),
    "pytest": ("kit",),
}
"""A library, and the only rooms that may import it."""

PURE = {
    "mmtool.translation": ("mmtool.translation", "numpy"),
    "mmtool.plan": ("mmtool.plan", "mmtool.translation", "mmtool.events", "mmtool.plain_text"),
    "mmtool.events": (),
    "mmtool.rights": (
        "mmtool.rights",
        "mmtool.config",
        "mmtool.errors",
        "mmtool.plain_text",
        "mmtool.plan",
        "mmtool.translation",
    ),
    "mmtool.importers.core": (
        "mmtool.importers.core",
        "mmtool.config",
        "mmtool.errors",
        "mmtool.plain_text",
        "javaproperties",
        "yaml",
    ),
    "mmtool.plain_text": (),
}
"""A room without IO, and what it may import beside the standard library."""

FACADE = "mmtool.translation"
"""The public Python API: it names what users import, from any room, and loads it on demand. None of ours imports it."""

IMPURE = {
    "asyncio", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "selectors",
    "signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
}  # fmt: skip
"""Parts of the standard library that reach for the world: clock, files, network, chance, environment."""

ABOVE = {
    "mmtool.translation": ("mmtool",),
    "mmtool.plan": ("mmtool.kafka", "mmtool.config", "mmtool.output"),
    "mmtool.errors": ("mmtool",),
    "mmtool.events": ("mmtool",),
    "mmtool.plain_text": ("mmtool",),
    "mmtool.keystores": ("mmtool.config", "mmtool.kafka", "mmtool.output", "mmtool.plan"),
    "mmtool.config": ("mmtool.kafka", "mmtool.output"),
    "mmtool.kafka": ("mmtool.output",),
    "mmtool.output": ("mmtool.kafka", "mmtool.config", "mmtool.plan"),
}
"""A lower room, and those it does not know, beside every service and every command."""

SERVICES = (
    "mmtool.commands",
    "mmtool.doctor",
    "mmtool.evidence",
    "mmtool.failover",
    "mmtool.importers",
    "mmtool.insight",
    "mmtool.lab",
    "mmtool.metrics",
    "mmtool.replication",
)


def within(name, rooms):
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def offences(modules, forbidden):
    return sorted({f"{m.name} imports {name}" for m in modules for name in m.imports if forbidden(m, name)})


def rooms_of(modules, room):
    """The modules of a room; the facade does not count, for it loads nothing by itself."""
    return [module for module in modules if within(module.name, (room,)) and module.name != FACADE]


@pytest.mark.parametrize(("library", "rooms"), OWNERS.items(), ids=list(OWNERS))
def test_a_library_is_imported_by_its_owners_only(modules, library, rooms):
    others = [module for module in modules if not within(module.name, rooms)]
    assert offences(others, lambda _, name: within(name, (library,))) == []


def test_modules_of_aiokafka_are_imported_from_their_package(modules):
    """``from aiokafka.conn import X`` locks the module before the package, which imports it: two threads deadlock."""
    found = [
        f"{module.name}:{node.lineno}"
        for module in modules
        if within(module.name, ("mmtool",))
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom | ast.Import)
        and any(name.startswith("aiokafka.") for name in (getattr(node, "module", None) or "", *_whole(node)))
    ]
    assert found == []


def _whole(node):
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


@pytest.mark.parametrize(("room", "allowed"), PURE.items(), ids=list(PURE))
def test_a_pure_room_imports_nothing_that_reaches_the_world(modules, room, allowed):
    def forbidden(_, name):
        top = name.split(".")[0]
        return not (within(name, allowed) or (top in sys.stdlib_module_names and top not in IMPURE))

    assert offences(rooms_of(modules, room), forbidden) == []


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_reads_no_clock(modules, room):
    readings = ("now", "today", "utcnow")
    found = [
        f"{module.name}: {node.attr}"
        for module in modules
        if within(module.name, (room,))
        for node in ast.walk(module.tree)
        if getattr(node, "attr", "") in readings and getattr(node.value, "id", "") in {"datetime", "date"}
    ]
    assert found == []


@pytest.mark.parametrize(("room", "unknown"), ABOVE.items(), ids=list(ABOVE))
def test_a_lower_room_does_not_know_the_upper_ones(modules, room, unknown):
    def forbidden(_, name):
        return not within(name, (room,)) and within(name, (*unknown, *SERVICES))

    assert offences(rooms_of(modules, room), forbidden) == []


def test_services_do_not_know_the_commands(modules):
    surface = ("mmtool.commands", "mmtool.__main__", "kit.command_tree")
    services = [module for module in modules if not within(module.name, surface)]
    assert offences(services, lambda _, name: within(name, ("mmtool.commands",))) == []


def test_a_command_loads_only_typer_and_light_rooms_before_it_runs(modules):
    ours = ("mmtool.commands", "mmtool.output", "mmtool.errors", "mmtool.events", "mmtool.plain_text")
    rooms = (*ours, "mmtool.__version__", "typer", "__future__")
    light = (
        *rooms,
        "mmtool.plan.failover.choices",
        "mmtool.metrics.families",
        "mmtool.rights.needs",
        "mmtool.lab.security.kinds",
        "mmtool.runtime.known_names",
    )  # options' words; they load dataclasses and enum
    heavy = [
        f"{module.name} imports {name}"
        for module in modules
        if within(module.name, ("mmtool.commands",))
        for name in module.imports_at_start()
        if not within(name, light) and name.split(".")[0] not in sys.stdlib_module_names
    ]
    assert heavy == []


def test_the_code_imports_itself_under_one_name_only(modules):
    assert offences(modules, lambda _, name: within(name, ("commands", "translation"))) == []


def test_no_module_needs_one_that_needs_it_imports_for_types_included(modules):
    names = {module.name for module in modules}
    needs = {module.name: {_module_of(name, names) for name in module.imports} for module in modules}
    left = {name: needed & names - {name} for name, needed in needs.items()}
    while ready := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in ready}
    assert left == {}


def _module_of(imported, names):
    """The module of an import: ``a.b.C`` is of ``a.b``."""
    while imported and imported not in names:
        imported = imported.rpartition(".")[0]
    return imported


def test_an_import_for_types_alone_would_load_something(modules):
    """What is loaded anyway is imported openly: ``TYPE_CHECKING`` says that loading it would cost a start."""
    ours = [module for module in modules if module.name.startswith("mmtool")]
    names = {module.name for module in ours}
    needs = {
        module.name: {
            _module_of(one, names) for one in [*module.imports_at_start(), module.name.rpartition(".")[0]]
        }
        for module in ours
    }

    def is_loaded_by(name, imported):
        loaded, left = set(), {name}
        while left:
            loaded |= left
            left = {needed for one in left for needed in needs.get(one, ()) if needed} - loaded
        return _module_of(imported, names) in loaded or imported.partition(".")[0] in sys.stdlib_module_names

    idle = {
        module.name
        for module in ours
        if module.imports_for_types
        and all(is_loaded_by(module.name, one) for one in module.imports_for_types)
    }
    assert idle <= {"mmtool.insight.offset_map"}  # the public API loads it, and its types load the public API


def test_no_module_is_named_by_a_participle(modules):
    names = {module.name.rpartition(".")[2] for module in modules}
    nouns = {"feed", "finding", "listing", "seed", "wiring"}
    assert {name for name in names if re.fullmatch(r"_?[a-z]+(?:ing|ed)", name)} - nouns == set()
