"""Writes a line for each object of standard input, with what an operator notices only when
it is needed: Helm's hooks, by what a number of pods is chosen, and groups of alerts."""
import sys

import yaml


def metric(m):
    source = m[m["type"].lower()]
    target = source["target"]
    return f'{source.get("name") or source["metric"]["name"]} {target.get("averageUtilization") or target.get("averageValue")}'


def words(o):
    spec = o.get("spec", {})
    hook = o["metadata"].get("annotations", {}).get("helm.sh/hook")
    if hook:
        yield "hook " + hook
    if o["kind"] == "HorizontalPodAutoscaler":
        yield f'{spec["scaleTargetRef"]["kind"]} {spec["scaleTargetRef"]["name"]}, {spec["minReplicas"]} to {spec["maxReplicas"]} pods by ' + ", ".join(map(metric, spec["metrics"]))
    if o["kind"] == "PrometheusRule":
        yield "groups " + ", ".join(g["name"] for g in spec["groups"])


for line in sorted(": ".join([f'{o["kind"]} {o["metadata"]["name"]}', *words(o)]) for o in yaml.safe_load_all(sys.stdin) if o):
    print(line)
