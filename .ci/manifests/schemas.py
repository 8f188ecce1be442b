"""Writes JSON schemas of Kubernetes's objects, each of which knows no other fields than
its own, as kubeconform reads them.

  schemas.py OUT swagger.json            OUT/<kind>-<group>-<version>.json
  schemas.py OUT …-crd.json …-crd.json   the same, from definitions of custom resources
"""
import json
import os
import sys


def strict(schema):
    """Makes objects with named fields refuse others, and names the types of values that
    are written in two forms."""
    if isinstance(schema, list):
        return [strict(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "integer"]}
    schema = {k: {n: strict(s) for n, s in v.items()} if k == "properties" else strict(v) for k, v in schema.items() if k not in ("description", "default")}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    return schema


def closure(definitions, name, into):
    """Adds a definition and those that it refers to."""
    if name not in into:
        into[name] = definitions[name]
        for other in refs(definitions[name]):
            closure(definitions, other, into)
    return into


def refs(schema):
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix("#/definitions/")
        schema = list(schema.values())
    if isinstance(schema, list):
        for s in schema:
            yield from refs(s)


def write(out, kind, group, version, schema):
    """The name is that which kubeconform looks for: the first part of the group alone."""
    name = "-".join(p.lower() for p in (kind, group.split(".")[0], version) if p)
    with open(os.path.join(out, name + ".json"), "w") as f:
        json.dump(schema, f)


def main(out, *files):
    os.makedirs(out, exist_ok=True)
    for name in files:
        with open(name) as f:
            document = json.load(f)
        if document.get("kind") == "CustomResourceDefinition":
            spec = document["spec"]
            for v in spec["versions"]:
                schema = strict(v["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"} # Kubernetes's own
                write(out, spec["names"]["kind"], spec["group"], v["name"], schema)
            continue
        definitions = {n: strict(s) for n, s in document["definitions"].items()}
        definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
        for n, s in definitions.items():
            for g in s.get("x-kubernetes-group-version-kind", []):
                if "metadata" in s.get("properties", {}) and not g["kind"].endswith("List"):
                    write(out, g["kind"], g["group"], g["version"], {"$ref": "#/definitions/" + n, "definitions": closure(definitions, n, {})})


if __name__ == "__main__":
    main(*sys.argv[1:])
