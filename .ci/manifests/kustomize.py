"""Writes the objects of packaging/kustomize from those that the chart renders.

  kustomize.py OUT <rendered.yaml    OUT/base and OUT/migrate
"""
import os
import sys

import yaml

HEADER = "# Made from the chart with packaging/kustomize/values.yaml by `.ci/kubernetes update`.\n"


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def plain(o):
    """The object without what is Helm's."""
    metadata = o["metadata"]
    metadata.pop("namespace", None)
    for kept in ("labels", "annotations"):
        metadata[kept] = {k: v for k, v in metadata.get(kept, {}).items() if not k.startswith("helm.sh/") and k != "app.kubernetes.io/managed-by"}
        if not metadata[kept]:
            del metadata[kept]
    return o


def main(out):
    folders = {"base": {}, "migrate": {}}
    for o in yaml.safe_load_all(sys.stdin):
        if o:
            hook = o["metadata"].get("annotations", {}).get("helm.sh/hook")
            folders["migrate" if hook else "base"].setdefault(o["kind"].lower(), []).append(plain(o))
    for folder, kinds in folders.items():
        path = os.path.join(out, folder)
        os.makedirs(path, exist_ok=True)
        kinds["kustomization"] = [{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": sorted(k + ".yaml" for k in kinds)}]
        for kind, objects in kinds.items():
            with open(os.path.join(path, kind + ".yaml"), "w") as f:
                f.write(HEADER)
                yaml.dump_all(objects, f, Dumper=Dumper, sort_keys=False, width=150)


main(*sys.argv[1:])
