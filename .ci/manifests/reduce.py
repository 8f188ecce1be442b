"""Keeps of a description of Kubernetes's objects what .ci/kubernetes reads (schemas.py).

  reduce.py swagger.json OUT   the kinds below, and the definitions that they refer to
  reduce.py …-crd.json OUT     names, versions and schemas

Texts for people are left out, and so is all else that says nothing about the form.
"""
import json
import sys

from schemas import closure

# The kinds that the chart and the kustomization make, and what people add beside them.
kinds = {
    "ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Ingress", "Job", "Namespace", "NetworkPolicy", "Pod", "PodDisruptionBudget",
    "Secret", "Service", "ServiceAccount",
}


def form(schema, named=False):
    """A schema without texts. Where named is set, keys are the names of fields."""
    if isinstance(schema, list):
        return [form(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: form(v, named=k == "properties" and not named) for k, v in schema.items() if named or k not in ("description", "default")}


def of_kubernetes(document):
    definitions, kept = document["definitions"], {}
    for name, schema in definitions.items():
        if any(g["kind"] in kinds for g in schema.get("x-kubernetes-group-version-kind", [])) and "metadata" in schema.get("properties", {}):
            closure(definitions, name, kept)
    return {"definitions": {n: form(s) for n, s in kept.items()}}


def of_resource(document):
    spec = document["spec"]
    return {"kind": document["kind"], "spec": {
        "group": spec["group"], "names": {"kind": spec["names"]["kind"]},
        "versions": [{"name": v["name"], "schema": {"openAPIV3Schema": form(v["schema"]["openAPIV3Schema"])}} for v in spec["versions"]],
    }}


def main(source, out):
    with open(source) as f:
        document = json.load(f)
    reduced = of_resource(document) if document.get("kind") == "CustomResourceDefinition" else of_kubernetes(document)
    with open(out, "w") as f:
        json.dump(reduced, f, indent=1, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
