"""The manifests of ``deploy/kubernetes``: valid for Kubernetes, allowed to run, and with commands that mmtool has."""

import runpy
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from kit.command_tree import parsed
from kit.kustomize import build, containers, pod_spec
from kit.scrape import fetch
from mmtool import __version__
from mmtool.config import load_settings
from mmtool.lab.security.certificates import Authority
from mmtool.metrics.server import MetricsServer

DEPLOY = Path(__file__).parents[3] / "deploy"
OVERLAYS = DEPLOY / "kubernetes" / "overlays"
OF_THE_OPERATOR = {"ServiceMonitor", "PrometheusRule"}
VERSIONS = ("1.29", kubernetes_validate.latest_version())
SECRETS = "/run/secrets/mmtool"


@pytest.fixture(scope="module")
def manifests():
    return build(OVERLAYS / "prometheus-operator")


@pytest.fixture(scope="module")
def named(manifests):
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}


@pytest.fixture(scope="module")
def pods(manifests):
    """The spec of each kind of pod, by the name of what makes it."""
    return {m["metadata"]["name"]: spec for m in manifests if (spec := pod_spec(m)) is not None}


@pytest.fixture(scope="module")
def commands(manifests):
    return {m["metadata"]["name"]: container["args"] for m in manifests for container in containers(m)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", ["plain", "prometheus-operator"])
def test_kubernetes_accepts_every_manifest(overlay, version):
    for manifest in build(OVERLAYS / overlay):
        if manifest["kind"] not in OF_THE_OPERATOR:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("overlay", ["plain", "prometheus-operator"])
def test_kustomize_builds_the_same_manifests(overlay):
    command = ["kubectl", "kustomize", str(OVERLAYS / overlay)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert by_name(yaml.safe_load_all(ended.stdout)) == by_name(build(OVERLAYS / overlay))


def by_name(manifests):
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}


def test_the_overlay_plain_needs_no_custom_resources(named):
    plain = by_name(build(OVERLAYS / "plain"))
    assert set(named) - set(plain) == {("ServiceMonitor", "mmtool"), ("PrometheusRule", "mmtool")}


def test_mmtool_has_every_command_and_option_of_the_manifests(commands):
    assert {name: parsed(command)[0] for name, command in commands.items()} == {
        "mmtool-replicate": "replicate",
        "mmtool-metrics": "metrics",
        "mmtool-smoke": "smoke",
        "mmtool-drill": "failover drill",
    }


def test_two_pods_wait_for_the_same_lease(named, commands):
    assert named["Deployment", "mmtool-replicate"]["spec"]["replicas"] == 2
    assert parsed(commands["mmtool-replicate"])[1]["standby"] is True


def test_the_drill_is_executed_and_a_job_has_no_terminal_to_confirm_on(commands):
    _, options = parsed(commands["mmtool-drill"])
    assert (options["execute"], options["yes"], options["all_groups"]) == (True, True, True)
    assert options["max_rto"] is not None
    assert options["max_reread"] == 0


def test_a_job_outlives_the_time_limit_of_its_command(named, commands):
    for name in ("mmtool-smoke", "mmtool-drill"):
        job = named["CronJob", name]["spec"]["jobTemplate"]["spec"]
        assert job["activeDeadlineSeconds"] > parsed(commands[name])[1]["timeout"].total_seconds()
        assert (job["backoffLimit"], job["template"]["spec"]["restartPolicy"]) == (0, "Never")


def test_each_probe_asks_a_path_that_mmtool_serves(pods):
    probes = [c[p] for spec in pods.values() for c in spec["containers"] for p in c if p.endswith("Probe")]
    assert len(probes) == 6
    with MetricsServer("127.0.0.1", 0, "--port") as server:
        server.serve(lambda _: (b"", ""), unready=tuple)
        assert {fetch(server.url, probe["httpGet"]["path"]).status for probe in probes} == {200}
    assert {probe["httpGet"]["port"] for probe in probes} == {"metrics"}


def test_a_standby_is_ready_although_it_owns_nothing(pods):
    """Otherwise a rollout would wait for the new standby, which waits for the old owner."""
    (replicate,) = pods["mmtool-replicate"]["containers"]
    assert replicate["readinessProbe"]["httpGet"]["path"] == "/healthz"


def test_a_stop_has_the_time_that_mmtool_needs(pods):
    assert pods["mmtool-replicate"]["terminationGracePeriodSeconds"] >= 2 * 30


def test_every_pod_fits_the_restricted_pod_security_standard(pods, named):
    labels = named["Namespace", "mmtool"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    for spec in pods.values():
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_every_container_requests_the_memory_that_it_may_use(pods):
    for spec in pods.values():
        for container in spec["containers"]:
            resources = container["resources"]
            assert {"cpu", "memory"} == set(resources["requests"]) == set(resources["limits"])
            assert resources["requests"]["memory"] == resources["limits"]["memory"]


def test_every_mount_has_its_volume_and_every_volume_its_mount(pods, named):
    for spec in pods.values():
        mounts = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
        assert mounts == {volume["name"] for volume in spec["volumes"]}
        assert ("ConfigMap", spec["volumes"][0]["configMap"]["name"]) in named


def test_no_manifest_holds_a_secret(manifests):
    assert [manifest for manifest in manifests if manifest["kind"] == "Secret"] == []
    secrets = {
        volume["secret"]["secretName"] for m in manifests for volume in volumes(m) if "secret" in volume
    }
    assert secrets == {"mmtool-credentials"}


def volumes(manifest):
    return (pod_spec(manifest) or {}).get("volumes", [])


def test_the_example_file_is_valid_with_the_files_of_the_secret(named, tmp_path):
    """A secret's files are mounted where the file looks for them."""
    for name in ("east-password", "west-password"):
        (tmp_path / name).write_text("changeit", encoding="utf-8")
    for name in ("east-ca.crt", "west-ca.crt"):
        (tmp_path / name).write_bytes(Authority.create().certificate_pem())
    text = named["ConfigMap", "mmtool-config"]["data"]["mm2.properties"]
    assert text.count(SECRETS) == 4
    file = tmp_path / "mm2.properties"
    file.write_text(text.replace(SECRETS, str(tmp_path)), encoding="utf-8")
    assert [flow.name for flow in load_settings(file, {}).flows] == ["east->west"]


def test_the_image_is_tagged_with_this_version_and_names_no_registry(manifests):
    images = {container["image"] for manifest in manifests for container in containers(manifest)}
    assert images == {f"mmtool:{__version__}"}


def test_a_service_leads_to_the_metrics_of_owner_standby_and_exporter(named):
    service = named["Service", "mmtool-metrics"]["spec"]
    labels = {
        name: manifest["spec"]["template"]["metadata"]["labels"]
        for (kind, name), manifest in named.items()
        if kind == "Deployment"
    }
    found = {name for name, has in labels.items() if service["selector"].items() <= has.items()}
    assert found == {"mmtool-replicate", "mmtool-metrics"}
    assert service["publishNotReadyAddresses"] is True


def test_the_service_monitor_scrapes_that_service_under_the_job_of_the_alerts(named):
    monitor, service = named["ServiceMonitor", "mmtool"], named["Service", "mmtool-metrics"]
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"
    job = labels[monitor["spec"]["jobLabel"]]
    assert f'up{{job="{job}"}}' in (DEPLOY / "prometheus" / "mmtool.rules.yml").read_text(encoding="utf-8")


def test_the_resources_of_the_operator_have_only_fields_that_it_knows(named):
    """kubernetes-validate does not know them; the API server drops what it does not know, without a word."""
    monitor, rule = named["ServiceMonitor", "mmtool"]["spec"], named["PrometheusRule", "mmtool"]["spec"]
    assert set(monitor) == {"selector", "jobLabel", "endpoints"}
    assert set(monitor["endpoints"][0]) == {"port", "path", "interval", "scrapeTimeout"}
    assert set(rule) == {"groups"}
    rules = [one for group in rule["groups"] for one in group["rules"]]
    assert {field for group in rule["groups"] for field in group} <= {"name", "interval", "rules"}
    assert {field for one in rules for field in one} <= {
        "record", "alert", "expr", "for", "labels", "annotations", "keep_firing_for",
    }  # fmt: skip


def test_the_prometheus_rule_has_the_rules_of_prometheus(named):
    rule = named["PrometheusRule", "mmtool"]
    assert rule["apiVersion"] == "monitoring.coreos.com/v1"
    rules = (DEPLOY / "prometheus" / "mmtool.rules.yml").read_text(encoding="utf-8")
    assert rule["spec"] == yaml.safe_load(rules)


def test_the_prometheus_rule_is_what_its_generator_writes():
    made = runpy.run_path(str(DEPLOY / "_tools" / "prometheus_rule.py"), run_name="generator")
    assert made["RESOURCE"].read_text(encoding="utf-8") == made["prometheus_rule"](), "run `make docs`"
