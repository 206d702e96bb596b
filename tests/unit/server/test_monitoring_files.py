"""Alert rules, dashboard and reference name metrics that exist, with labels that they have."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import yaml

from icefloe.server.metrics import HTTP_FAMILIES, PREFIX
from icefloe.service.metrics import FAMILIES

ROOT = Path(__file__).resolve().parents[3]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "icefloe.json"
SUFFIXES = {"gauge": ("",), "counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
NAMES = {
    f"{PREFIX}{family.name}{suffix}": {*family.labels, "le", "job", "instance"}
    for family in (*FAMILIES, *HTTP_FAMILIES)
    for suffix in SUFFIXES[family.kind]
}


def expressions() -> list[str]:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(found) > 30
    return found


def test_every_metric_and_label_that_rules_and_panels_name_exists() -> None:
    for expression in expressions():
        names = re.findall(r"icefloe_[a-z_]+", expression)
        unknown = set(names) - NAMES.keys()
        assert not unknown, (unknown, expression)
        labels = {label for name in names for label in NAMES[name]}
        for by in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
            assert {label.strip() for label in by.split(",")} <= labels, expression
        for matchers in re.findall(r"icefloe_[a-z_]+\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= labels, expression


def test_every_rule_says_what_it_is_about() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in ("page", "warn")
        labels = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        known = {label for name in re.findall(r"icefloe_[a-z_]+", rule["expr"]) for label in NAMES[name]}
        assert set(labels) <= known | {"instance"}, rule["alert"]


def test_the_dashboard_is_what_its_script_writes_and_its_panels_do_not_overlap() -> None:
    made: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "generate_grafana.py"))
    assert DASHBOARD.read_text(encoding="utf-8") == made["text"]()
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        taken |= cells


def test_names_follow_the_rules_of_prometheus() -> None:
    assert len({family.name for family in (*FAMILIES, *HTTP_FAMILIES)}) == len(FAMILIES) + len(HTTP_FAMILIES)
    for family in (*FAMILIES, *HTTP_FAMILIES):
        assert re.fullmatch(r"[a-z_]+", family.name) and not family.name.endswith(
            ("_total", "_count", "_sum", "_bucket")
        )
        assert family.text.endswith(".") and "|" not in family.text


def test_every_metric_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(icefloe_[a-z_]+)`", page, re.MULTILINE))
    assert named == {
        f"{PREFIX}{family.name}{'_total' if family.kind == 'counter' else ''}" for family in (*FAMILIES, *HTTP_FAMILIES)
    }
