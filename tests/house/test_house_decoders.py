"""Whatever reads bytes or text of others is in the table of decoders, so that it is tried with damaged input."""

import ast

import pytest

from kit.decoders.every import every_decoder

READS = {
    "parse_json", "loads", "unpack", "unpack_from", "iter_unpack", "b64decode", "urlsafe_b64decode", "from_bytes",
    "load_pem_private_key", "load_pem_public_key", "load_pem_x509_certificate", "load_der_x509_certificate",
    "load_pkcs12", "take_varint", "unescape", "read_bytes", "read_text",
}  # fmt: skip
"""Calls that make values of bytes or text, or get these from a file."""
TYPES = {"WireRequest", "Document", "Cursor"}
"""A module with a class of one of these, or a function that takes one, decodes too."""

ELSEWHERE = {
    "mmtool.commands._failover_options": "hands the lines to mmtool.plan.failover.acl_promotion",
    "mmtool.commands.evidence": "hands the page to mmtool.evidence.signature",
    "mmtool.commands.lab": "shows a file of the lab's as it is",
    "mmtool.config.keys": "reads the table of the package",
    "mmtool.doctor.spark": "reads counters of the kernel",
    "mmtool.insight.smoke": "reads its own records; what is not one of them is shown as ?",
    "mmtool.insight.verify.job": "makes a number of its own digest",
    "mmtool.lab.artifacts": "reads the list of files that it downloaded and checked",
    "mmtool.lab.cluster": "reads what it wrote beside its broker's data",
    "mmtool.lab.demo_story": "reads what a command of mmtool's has just written",
    "mmtool.lab.ports": "asks its own broker whether it has started, and asks again after an answer of any other kind",
    "mmtool.lab.security.setup": "reads credentials that it has written",
    "mmtool.lab.security.token_endpoint": "the lab's own, on loopback; a request that it cannot read ends alone",
    "mmtool.lab.process": "reads the log of its own process",
    "mmtool.lab.supervisor": "reads the request of the command that has started it",
    "mmtool.plan.failover.steps": "reads the texts of the package",
    "mmtool.replication.driver.engine": "`loads` are the work of its tasks",
    "mmtool.replication.driver.round": "`loads` are the work of its tasks",
    "mmtool.replication.spark.rounds": "reads the rows of its own tasks, and process ids from the kernel",
    "mmtool.transforms.child": "reads what its own parent has sent, and its parent what it answers",
    "mmtool.transforms.shipment": "packs files as they are",
    "mmtool.runtime.process": "reads limits of the kernel",
}
"""Modules that read, but nothing that others wrote; why."""


def decodes(module):
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and _called(node) in READS:
            return True
        if isinstance(node, ast.ClassDef) and any(_named(base) in TYPES for base in node.bases):
            return True
        if isinstance(node, ast.FunctionDef) and "kafka.wire" in module.name and _takes(node):
            return True
    return False


def _takes(function):
    return any(_named(one.annotation) in TYPES for one in function.args.args if one.annotation)


def _called(node):
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _named(node):
    return ast.unparse(node).partition("[")[0]


@pytest.fixture(scope="module")
def tried():
    return {name for row in every_decoder() for name in row.modules}


def test_each_module_that_decodes_is_in_the_table(modules, tried):
    ours = [module for module in modules if module.name.startswith("mmtool")]
    missing = [one.name for one in ours if decodes(one) and one.name not in tried | ELSEWHERE.keys()]
    assert missing == []


def test_the_table_and_the_exceptions_name_modules_that_exist(modules, tried):
    assert (tried | ELSEWHERE.keys()) - {module.name for module in modules} == set()
    assert tried & ELSEWHERE.keys() == set()


def test_decoders_have_names_of_their_own():
    names = [row.name for row in every_decoder()]
    assert sorted(set(names)) == sorted(names)
