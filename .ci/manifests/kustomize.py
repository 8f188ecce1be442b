"""Writes the objects of packaging/kustomize from those that the chart renders.

  kustomize.py OUT BASE FULL   OUT/base and OUT/migrate from the file BASE; from what FULL
                               has in addition, the components OUT/autoscaling and OUT/monitoring
"""
import json
import os
import sys

import yaml

HEADER = "# Made from the chart with packaging/kustomize/{} by `.ci/kubernetes update`.\n"


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def read(file):
    """The objects of a rendered file by kind and name."""
    with open(file) as f:
        return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(f) if o}


def plain(o):
    """The object without what is Helm's."""
    metadata = o["metadata"]
    metadata.pop("namespace", None)
    for kept in ("labels", "annotations"):
        metadata[kept] = {k: v for k, v in metadata.get(kept, {}).items() if not k.startswith("helm.sh/") and k != "app.kubernetes.io/managed-by"}
        if not metadata[kept]:
            del metadata[kept]
    return o


def write(path, values, objects, **kustomization):
    """A folder with a file for each kind of object, and the kustomization of them."""
    os.makedirs(path, exist_ok=True)
    kinds = {}
    for o in objects:
        kinds.setdefault(o["kind"].lower(), []).append(plain(o))
    kinds["kustomization"] = [{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": sorted(k + ".yaml" for k in kinds), **kustomization}]
    for kind, documents in kinds.items():
        with open(os.path.join(path, kind + ".yaml"), "w") as f:
            f.write(HEADER.format(values))
            yaml.dump_all(documents, f, Dumper=Dumper, sort_keys=False, width=150)


def main(out, base, full):
    base, full = read(base), read(full)
    hooks = {name for name, o in base.items() if "helm.sh/hook" in o["metadata"].get("annotations", {})}
    write(os.path.join(out, "base"), "values.yaml", [o for name, o in base.items() if name not in hooks])
    write(os.path.join(out, "migrate"), "values.yaml", [base[name] for name in base if name in hooks])
    added = [o for name, o in full.items() if name not in base]
    scalers = [o for o in added if o["kind"] == "HorizontalPodAutoscaler"]
    scaled = {("Deployment", o["spec"]["scaleTargetRef"]["name"]) for o in scalers}
    for name in scaled:
        del base[name]["spec"]["replicas"] # the number of pods is the autoscaler's alone
    other = [name for name in base if base[name] != plain(full[name])]
    assert not other, f"the components do not change {other} as the chart does"
    patches = [{"target": {k: o["spec"]["scaleTargetRef"][k] for k in ("kind", "name")}, "patch": json.dumps([{"op": "remove", "path": "/spec/replicas"}])} for o in scalers]
    component = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    write(os.path.join(out, "autoscaling"), "components.yaml", scalers, **component, patches=patches)
    write(os.path.join(out, "monitoring"), "components.yaml", [o for o in added if o not in scalers], **component)


main(*sys.argv[1:])
