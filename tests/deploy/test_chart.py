"""The Helm chart: linted, rendered in both modes, and validated by the schemas of Kubernetes."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

_JOBS = {
    "mode": "cronjobs",
    "jobs": {
        "prod": {"schedule": "0 2 * * *", "timeZone": "Europe/Berlin", "args": ["sweep", "prod"]},
        "upkeep": {"schedule": "30 4 * * *", "args": ["store", "maintain", "--yes"]},
    },
}
_SERVICE = {
    "secrets": ["lakesweep-secrets"],
    "env": [{"name": "AWS_REGION", "value": "eu-central-1"}],
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/sweep"}},
    "nodeSelector": {"pool": "batch"},
}
_KINDS = {
    "service": {"ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"},
    "cronjobs": {"ConfigMap", "CronJob", "ServiceAccount"},
}


@pytest.fixture
def chart(project: Path) -> Path:
    return project / "deploy" / "helm" / "lakesweep"


def _helm(tools: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tools / "bin" / "helm", *words], check=False, capture_output=True, text=True, timeout=120
    )


def _render(tools: Path, chart: Path, values: dict[str, Any], folder: Path) -> str:
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    done = _helm(tools, "template", "night", chart, "--kube-version", "1.34.0", "--values", file)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("values", [{}, _SERVICE, _JOBS], ids=["defaults", "service", "cronjobs"])
def test_it_renders_to_valid_objects(
    values: dict[str, Any], chart: Path, tools: Path, schemas: Path, tmp_path: Path
) -> None:
    text = _render(tools, chart, values, tmp_path)
    objects = [each for each in yaml.safe_load_all(text) if each]
    assert {each["kind"] for each in objects} == _KINDS[values.get("mode", "service")]
    validate: list[str | Path] = [
        *(tools / "bin" / "kubeconform", "-strict", "-summary"),
        *("-schema-location", f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"),
    ]
    done = subprocess.run(validate, input=text, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Valid: {len(objects)}, Invalid: 0, Errors: 0, Skipped: 0" in done.stdout


@pytest.fixture(scope="session")
def schemas(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Schemas of Kubernetes that refer to each other as files.

    kubeconform would fetch them, and what they refer to, from hosts that are no package registry.
    """
    packages = next((tools / "schemas").glob("lib/python*/site-packages"))
    source = packages / "kubernetes_validate" / "kubernetes-json-schema" / "v1.34.0-local-strict"
    folder = tmp_path_factory.mktemp("schemas")
    for file in source.glob("*.json"):
        text = re.sub(r'"\$id": "[^"]*"', '"title": ""', file.read_text())
        (folder / file.name).write_text(text.replace('"/api/_definitions', '"_definitions'))
    return folder


def test_it_is_linted(chart: Path, tools: Path) -> None:
    done = _helm(tools, "lint", "--strict", chart)
    assert done.returncode == 0, done.stdout


def test_pods_have_few_rights_and_time_to_end(chart: Path, tools: Path, tmp_path: Path) -> None:
    for values in ({}, _JOBS):
        for each in yaml.safe_load_all(_render(tools, chart, values, tmp_path)):
            if each and each["kind"] in ("Deployment", "CronJob"):
                pod = each["spec"].get("jobTemplate", each)["spec"]["template"]["spec"]
                container = pod["containers"][0]
                assert pod["securityContext"]["runAsNonRoot"]
                assert container["securityContext"]["readOnlyRootFilesystem"]
                assert pod["terminationGracePeriodSeconds"] >= 120


def test_the_configuration_arrives_as_it_was_written(
    chart: Path, tools: Path, tmp_path: Path
) -> None:
    written = '[lakes."a b"]\nlocations = ["s3://lake/{{ x }}"]\n'
    rendered = yaml.safe_load_all(_render(tools, chart, {"config": written}, tmp_path))
    held = next(each for each in rendered if each and each["kind"] == "ConfigMap")
    assert tomllib.loads(held["data"]["lakesweep.toml"]) == tomllib.loads(written)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mode": "cronjobs"}, "needs `jobs`"),
        ({"mode": "daemon"}, "mode"),
        ({"replicas": 3}, "replicas"),
        ({"mode": "cronjobs", "jobs": {"prod": {"schedule": "0 2 * * *"}}}, "args"),
    ],
)
def test_wrong_values_are_refused(
    values: dict[str, Any], said: str, chart: Path, tools: Path, tmp_path: Path
) -> None:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    done = _helm(tools, "template", "night", chart, "--kube-version", "1.34.0", "--values", file)
    assert done.returncode != 0
    assert said in done.stderr
