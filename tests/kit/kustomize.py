"""The manifests of ``deploy/kubernetes``, built as ``kubectl kustomize`` builds them, without that program.

Of Kustomize it knows what the folders use: resources, a namespace, images, and ConfigMaps made of files. Anything else
in a ``kustomization.yaml`` is an error here, so that no test passes on half a build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Manifest = dict[str, Any]

_KNOWN = {
    "apiVersion", "kind", "namespace", "resources", "images", "configMapGenerator", "generatorOptions",
}  # fmt: skip
_CLUSTER_WIDE = ("Namespace",)


class UnknownFieldError(ValueError):
    """A ``kustomization.yaml`` uses what this module does not build."""


def build(folder: Path) -> list[Manifest]:
    """Every manifest of a folder with a ``kustomization.yaml``.

    Raises:
        UnknownFieldError: It uses another field than those that are built here.
    """
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    if unknown := set(kustomization) - _KNOWN:
        raise UnknownFieldError(f"{folder}: {sorted(unknown)}")
    found = [manifest for name in kustomization["resources"] for manifest in _resource(folder / name)]
    found += [_config_map(folder, made) for made in kustomization.get("configMapGenerator", ())]
    for manifest in found:
        if "namespace" in kustomization and manifest["kind"] not in _CLUSTER_WIDE:
            manifest["metadata"]["namespace"] = kustomization["namespace"]
        for container in containers(manifest):
            container["image"] = _image(container["image"], kustomization.get("images", ()))
    return found


def pod_spec(manifest: Manifest) -> Manifest | None:
    """The spec of the pods that a manifest makes; None where it makes none."""
    spec = manifest.get("spec", {})
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
    return None if template is None else template["spec"]


def containers(manifest: Manifest) -> list[Manifest]:
    """The containers of the pods that a manifest makes."""
    spec = pod_spec(manifest)
    return [] if spec is None else [*spec.get("initContainers", ()), *spec["containers"]]


def _resource(path: Path) -> Iterator[Manifest]:
    if path.is_dir():
        yield from build(path)
    else:
        yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def _config_map(folder: Path, made: Manifest) -> Manifest:
    if set(made) != {"name", "files"}:
        raise UnknownFieldError(f"{folder}: {sorted(made)}")
    data = {name: (folder / name).read_text(encoding="utf-8") for name in made["files"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": made["name"]}, "data": data}


def _image(image: str, replaced: list[Manifest]) -> str:
    name, _, tag = image.partition(":")
    for one in replaced:
        if one["name"] == name:
            tag = one.get("newTag", tag)
            name = one.get("newName", name)
    return f"{name}:{tag}" if tag else name
