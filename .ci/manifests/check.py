"""Checks rendered objects for what schemas cannot say: that they fit each other and the
program, hold no secret, and satisfy the Pod Security Standard "restricted".

  check.py PROGRAM FILE…
"""
import json
import os
import subprocess
import sys

import yaml

LISTENS = {"api": ("LEDGERFEED_LISTEN", 8080), "console": ("LEDGERFEED_CONSOLE_LISTEN", 8081), "ingest-api": ("LEDGERFEED_INGEST_LISTEN", 8082), "admin": ("LEDGERFEED_ADMIN_LISTEN", 9090)}
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
PROGRAMS_OWN = {"GOGC", "GOMEMLIMIT", "PGSSLROOTCERT", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"}


class Checker:
    def __init__(self, program, objects):
        self.program, self.objects, self.faults = program, objects, []
        answer = subprocess.run([program, "config", "--json"], env={}, check=True, capture_output=True, text=True).stdout
        self.settings = {s["variable"]: s for s in json.loads(answer)["settings"]}

    def expect(self, ok, where, what):
        if not ok:
            self.faults.append(f"{where}: {what}")

    def pods(self):
        """Names, labels and specs of what runs."""
        for o in self.objects:
            name = f'{o["kind"]} {o["metadata"]["name"]}'
            if o["kind"] == "Pod":
                yield name, o["metadata"].get("labels", {}), o["spec"]
            elif o["kind"] in ("Deployment", "Job"):
                template = o["spec"]["template"]
                yield name, template["metadata"].get("labels", {}), template["spec"]
                if o["kind"] == "Deployment":
                    self.expect(selects(o["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]), name, "does not select its own pods")

    def restricted(self, name, spec):
        """The Pod Security Standard "restricted", and what the program can do without beyond it."""
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            self.expect(not spec.get(field), name, field)
        self.expect(spec.get("automountServiceAccountToken") is False, name, "gets a token of the cluster")
        self.expect(spec.get("enableServiceLinks") is False, name, "gets variables that are named after services")
        pod = spec.get("securityContext", {})
        self.expect(pod.get("runAsNonRoot") is True and pod.get("runAsUser") == 65532 and pod.get("runAsGroup") == 65532, name, "does not run as the image's account")
        self.expect(pod.get("seccompProfile", {}).get("type") == "RuntimeDefault", name, "has no seccomp profile")
        for v in spec.get("volumes", []):
            self.expect(set(v) - {"name"} <= VOLUMES, name, f"the volume {v} is of a type that is not allowed")
        mounted = {v["name"] for v in spec.get("volumes", [])}
        for c in spec.get("initContainers", []) + spec["containers"]:
            security = c.get("securityContext", {})
            self.expect(security.get("allowPrivilegeEscalation") is False, name, "privileges can be escalated")
            self.expect(security.get("readOnlyRootFilesystem") is True, name, "the file system can be written to")
            self.expect(security.get("capabilities") == {"drop": ["ALL"]}, name, "has capabilities")
            self.expect(set(security) == {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"}, name, f"unexpected: {security}")
            self.expect("memory" in c.get("resources", {}).get("limits", {}), name, "has no limit of memory")
            self.expect("command" not in c, name, "replaces the image's entry point")
            for m in c.get("volumeMounts", []):
                self.expect(m["name"] in mounted, name, f'mounts {m["name"]}, which does not exist')
            for p in c.get("ports", []):
                self.expect("hostPort" not in p, name, "takes a port of the node")

    def environment(self, name, container, scratch):
        """Each variable is one of the program's, those that are secret come from Secrets, and the
        program takes them."""
        env = {}
        for e in container["env"]:
            variable = e["name"]
            self.expect(variable in self.settings or variable in PROGRAMS_OWN, name, f"{variable} is not one of the program's")
            self.expect(variable not in env, name, f"{variable} is set twice")
            secret = variable == "OTEL_EXPORTER_OTLP_HEADERS" or self.settings.get(variable, {}).get("secret", False)
            self.expect(("valueFrom" in e) == secret, name, f"{variable} has to come from a Secret if it is secret, and only then")
            examples = {"DATABASE_URL": "postgres://db/x", "LEDGERFEED_SECRET_KEY": "0123456789abcdef", "LEDGERFEED_SIGNING_KEY": "PRIVATE+KEY+ledgerfeed+0b28140f+AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB", "LEDGERFEED_SMTP_URL": "smtp://mail:587", "LEDGERFEED_OIDC_CLIENT_SECRET": "x", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=x", "LEDGERFEED_RELAY_URL": "nats://nats:4222/?replicas=3", "LEDGERFEED_INGEST_URL": "postgres://shop/shop?topic=ledgerfeed"}
            env[variable] = e.get("value", examples.get(variable))
        r = subprocess.run([self.program, "config", "--json"], env=env, cwd=scratch, capture_output=True, text=True)
        self.expect(r.returncode == 0, name, "the program refuses its settings: " + r.stderr)
        help_ = subprocess.run([self.program, *container["args"], "--help"], env={}, capture_output=True, text=True)
        self.expect(help_.returncode == 0, name, "the program does not know its arguments: " + help_.stderr)
        return env

    def serving(self, name, labels, spec):
        """Ports are where the program listens, and probes and labels fit the roles."""
        (c,) = spec["containers"]
        roles = [a.removeprefix("--roles=").split(",") for a in c["args"] if a.startswith("--roles=")][0]
        self.expect({"ledgerfeed/role-" + r for r in roles} == {l for l in labels if l.startswith("ledgerfeed/role-")}, name, "its labels are not its roles")
        self.expect("--no-migrate" in c["args"], name, "migrates")
        ports = {p["name"]: p["containerPort"] for p in c["ports"]}
        self.expect(set(ports) == ({"api", "console", "ingest-api"} & set(roles)) | {"admin"}, name, f"ports {ports} of the roles {roles}")
        env = {e["name"]: e.get("value") for e in c["env"]}
        for port, (variable, number) in LISTENS.items():
            self.expect(env[variable] == f":{number}" and ports.get(port, number) == number, name, f"{variable} is {env[variable]}, the port {ports.get(port)}")
        for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            self.expect(c[probe]["httpGet"] == {"path": path, "port": "admin"}, name, f"{probe} is {c[probe]}")
        self.expect("LEDGERFEED_SECRET_KEY" in env or not {"deliver", "console"} & set(roles), name, "has no secret key")
        needed = seconds(env["LEDGERFEED_DRAIN_DELAY"]) + 15 + seconds(env.get("LEDGERFEED_WEBHOOK_TIMEOUT", "10s"))
        self.expect(spec["terminationGracePeriodSeconds"] >= needed + 10, name, f"is killed while it drains, which takes up to {needed} s")
        return ports

    def references(self, pods):
        """What selects pods selects some, by ports that they have, and each object has one name."""
        names = [(o["kind"], o["metadata"]["name"]) for o in self.objects]
        self.expect(len(names) == len(set(names)), "objects", "two of one name")
        served = {n: p for n, p in pods.items() if n.startswith("Deployment ")}
        for o in self.objects:
            kind, name = o["kind"], f'{o["kind"]} {o["metadata"]["name"]}'
            self.expect(kind not in ("Secret", "ConfigMap"), name, "values belong into the cluster, not into the chart")
            if kind == "Service":
                chosen = [ports for labels, ports in served.values() if selects(o["spec"]["selector"], labels)]
                self.expect(chosen, name, "selects nothing")
                strangers = [n for n, (labels, _) in pods.items() if n not in served and selects(o["spec"]["selector"], labels)]
                self.expect(not strangers, name, f"selects {strangers}")
                for p in o["spec"]["ports"]:
                    self.expect(all(p["targetPort"] in ports for ports in chosen), name, f'a pod does not listen at {p["targetPort"]}')
            elif kind == "PodDisruptionBudget":
                self.expect(sum(selects(o["spec"]["selector"]["matchLabels"], labels) for labels, _ in pods.values()) == 1, name, "is not for one deployment")
            elif kind == "NetworkPolicy":
                chosen = [ports for labels, ports in pods.values() if selects(o["spec"]["podSelector"]["matchLabels"], labels)]
                self.expect(chosen, name, "selects nothing")
                for rule in o["spec"].get("ingress", []):
                    for p in rule["ports"]:
                        self.expect(any(p["port"] in ports.values() for ports in chosen), name, f'no pod listens at {p["port"]}')
            elif kind == "HorizontalPodAutoscaler":
                target = o["spec"]["scaleTargetRef"]["name"]
                (deployment,) = [d for d in self.objects if d["kind"] == "Deployment" and d["metadata"]["name"] == target]
                self.expect("replicas" not in deployment["spec"], name, "the deployment sets the number of pods, too")
            elif kind == "Ingress":
                for rule in o["spec"]["rules"]:
                    for path in rule["http"]["paths"]:
                        to = path["backend"]["service"]
                        ports = [p["name"] for s in self.objects if s["kind"] == "Service" and s["metadata"]["name"] == to["name"] for p in s["spec"]["ports"]]
                        self.expect(to["port"]["name"] in ports, name, f"{to} does not exist")
            elif kind == "ServiceMonitor":
                services = [s for s in self.objects if s["kind"] == "Service" and selects(o["spec"]["selector"]["matchLabels"], s["metadata"]["labels"])]
                ports = [p["name"] for s in services for p in s["spec"]["ports"]]
                self.expect(len(services) == 1 and [e["port"] for e in o["spec"]["endpoints"]] == ports == ["admin"], name, "is not that of the port for operators")

    def run(self, scratch):
        pods = {}
        for name, labels, spec in self.pods():
            self.restricted(name, spec)
            for c in spec.get("initContainers", []) + spec["containers"]:
                self.environment(name, c, scratch)
            pods[name] = (labels, self.serving(name, labels, spec) if name.startswith("Deployment ") else {})
            accounts = {o["metadata"]["name"] for o in self.objects if o["kind"] == "ServiceAccount"}
            self.expect(spec["serviceAccountName"] in accounts, name, "runs as an account that does not exist")
        self.expect(pods, "objects", "no pod")
        self.references(pods)
        return self.faults


def selects(selector, labels):
    return selector.items() <= labels.items()


def seconds(text):
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def main(program, *files):
    faults = []
    for file in files:
        with open(file) as f:
            objects = [o for o in yaml.safe_load_all(f) if o]
        faults += [f"{os.path.basename(file)}: {fault}" for fault in Checker(program, objects).run(os.path.dirname(os.path.abspath(file)))]
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


main(*sys.argv[1:])
