"""Checks the kubectl commands of a page against the objects that the chart renders with the
page's own values: what they name exists, and what they run in a pod is known to the program
and has its settings there.

  commands.py PROGRAM PAGE RENDERED
"""
import os
import re
import subprocess
import sys

import yaml

# What a command in a pod may need, beside DATABASE_URL.
NEEDED = {"DATABASE_URL", "LEDGERFEED_SECRET_KEY", "LEDGERFEED_BASE_URL", "LEDGERFEED_CONSOLE_URL"}


def main(program, page, rendered):
    with open(rendered) as f:
        objects = {(o["kind"].lower(), o["metadata"]["name"]): o for o in yaml.safe_load_all(f) if o}
    with open(page) as f:
        text = f.read()
    commands = [c.strip("` ") for c in re.findall(r"^kubectl .*|`kubectl [^`]*", text, re.M)]
    assert len(commands) >= 9, commands
    made, faults = set(), []
    for c in commands:
        for kind, name in re.findall(r"\b(deploy|job)[/ ]([a-z-]+)", c.split(" -- ")[0]):
            o = objects.get(({"deploy": "deployment"}.get(kind, kind), name))
            if o is None:
                faults.append(f"{c}: there is no {kind}/{name}")
            elif " -- " in c:
                (container,) = o["spec"]["template"]["spec"]["containers"]
                missing = NEEDED - {e["name"] for e in container["env"]}
                entry, *args = c.split(" -- ")[1].split()
                help_ = subprocess.run([program, *args, "--help"], env={}, capture_output=True, text=True)
                if entry != "/ledgerfeed" or missing or help_.returncode != 0 or " ".join(a for a in args if a[0] != "-") not in help_.stdout:
                    faults.append(f"{c}: {name} lacks {missing}; {help_.stderr}")
        made |= set(re.findall(r"create secret generic ([a-z-]+)", c))
        for folder in re.findall(r" -k ([^ ]+)", c):
            if not os.path.isfile(os.path.join(folder, "kustomization.yaml")):
                faults.append(f"{c}: there is no {folder}")
    used = {e["valueFrom"]["secretKeyRef"]["name"] for o in objects.values() if o["kind"] in ("Deployment", "Job")
            for p in (o["spec"]["template"]["spec"],) for k in p.get("initContainers", []) + p["containers"] for e in k["env"] if "valueFrom" in e}
    if made != used:
        faults.append(f"the page makes the secrets {sorted(made)}, the objects use {sorted(used)}")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


main(*sys.argv[1:])
