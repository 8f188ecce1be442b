"""Runs what containers would run, with their arguments and settings, on a PostgreSQL of
this machine: first those that end, then those that serve, until they are ready; then
stops them.

  start.py kubernetes PROGRAM PORT FILE   objects as the chart renders them
  start.py compose PROGRAM PORT FILE      a compose file as JSON

The server at the port is empty and lets its administrator in through the socket of
PGHOST. In place of names and ports of the containers there are those of this machine.
"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LISTENS = ("LEDGERFEED_LISTEN", "LEDGERFEED_CONSOLE_LISTEN", "LEDGERFEED_ADMIN_LISTEN")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def psql(sql, database="postgres"):
    subprocess.run(["psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", database], input=sql, text=True, check=True)


class Kubernetes:
    def __init__(self, program, port, file):
        with open(file) as f:
            self.objects = [o for o in yaml.safe_load_all(f) if o]
        address = f"127.0.0.1:{port}/billing"
        psql("CREATE DATABASE billing")
        # docs/operations/roles.md, step 1, with its own words.
        roles = subprocess.run([program, "migrate", "--grants", "roles"], env={}, check=True, capture_output=True, text=True).stdout
        with open(os.path.join(ROOT, "docs/operations/roles.md")) as f:
            accounts = re.search(r"```sql\n(.*?)```", f.read(), re.S).group(1).replace("…", "a password")
        psql(roles + accounts, "billing")
        self.secrets = {"ledgerfeed-owner": f"postgres://billing_migrate:a%20password@{address}", "ledgerfeed-database": f"postgres://billing_serve:a%20password@{address}", "ledgerfeed-secret-key": "0123456789abcdef" * 4}

    def containers(self, kind):
        for o in self.objects:
            if o["kind"] == kind:
                spec = o["spec"] if kind == "Pod" else o["spec"]["template"]["spec"]
                for c in spec.get("initContainers", []) + spec["containers"]:
                    env = {e["name"]: e["value"] if "value" in e else self.secrets[e["valueFrom"]["secretKeyRef"]["name"]] for e in c["env"]}
                    yield o["metadata"]["name"] + "/" + c["name"], c["args"], env

    def once(self):
        return self.containers("Job")

    def serving(self):
        return self.containers("Deployment")

    def afterwards(self):
        return self.containers("Pod")

    def ready(self, program, env):
        """As the probes ask."""
        for path in ("/healthz", "/readyz"):
            try:
                urllib.request.urlopen("http://" + env["LEDGERFEED_ADMIN_LISTEN"] + path, timeout=3).close()
            except (urllib.error.URLError, OSError):
                return False
        return True


class Compose:
    def __init__(self, program, port, file):
        self.port = port
        with open(file) as f:
            project = json.load(f)
        self.files = {name: s["file"] for name, s in project["secrets"].items()}
        self.services = project["services"]
        postgres = self.services["postgres"]
        database = postgres["environment"]["POSTGRES_DB"]
        psql(f"CREATE DATABASE {database}")
        # What PostgreSQL's image runs, with this machine's files in place of its own.
        paths = {v["target"]: v["source"] for v in postgres["volumes"] if v["type"] == "bind"}
        paths.update({s["target"]: self.files[s["source"]] for s in postgres["secrets"]})
        for target, source in paths.items():
            if target.startswith("/docker-entrypoint-initdb.d/"):
                with open(source) as f:
                    script = f.read()
                for inside, outside in paths.items():
                    script = re.sub(re.escape(inside) + r"\b", outside, script)
                subprocess.run(["sh", "-c", script], env={**os.environ, **postgres["environment"]}, check=True)

    def containers(self, condition):
        """Those of the program that others wait for in this way, in their order."""
        done = {"postgres"}
        while done != set(self.services):
            name = next(n for n, s in self.services.items() if n not in done and set(s["depends_on"]) <= done)
            done.add(name)
            ends = any(s.get("depends_on", {}).get(name, {}).get("condition") == "service_completed_successfully" for s in self.services.values())
            if ends != (condition == "ends"):
                continue
            service, args = self.services[name], []
            for a in service["command"]:
                args.append(self.local(a.removeprefix("/run/secrets/"), service) if a.startswith("/run/secrets/") else a)
            yield name, args, dict(service.get("environment", {}))

    def local(self, name, service):
        """The file of a secret that the service has, with the server's place on this machine."""
        assert {"source": name, "target": "/run/secrets/" + name} in service["secrets"], name
        with open(self.files[name]) as f:
            text = f.read()
        assert "@postgres:5432/" in text, text
        with tempfile.NamedTemporaryFile("w", dir=os.environ["SCRATCH"], suffix=".yaml", delete=False) as f:
            f.write(text.replace("@postgres:5432/", f"@127.0.0.1:{self.port}/"))
        return f.name

    def once(self):
        return self.containers("ends")

    def serving(self):
        return self.containers("serves")

    def afterwards(self):
        return []

    def ready(self, program, env):
        """As the health checks ask."""
        (test,) = {tuple(s["healthcheck"]["test"]) for n, s in self.services.items() if n != "postgres" and "healthcheck" in s}
        assert test[:2] == ("CMD", "/ledgerfeed"), test
        return subprocess.run([program, *test[2:]], env=env, capture_output=True).returncode == 0


def main(kind, program, port, file):
    scratch = tempfile.mkdtemp(dir=os.environ["SCRATCH"])
    what = {"kubernetes": Kubernetes, "compose": Compose}[kind](program, int(port), file)
    for name, args, env in what.once():
        print(f"{name}: {' '.join(args[:3])}")
        subprocess.run([program, *args], env=env, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    running = []
    try:
        for name, args, env in what.serving():
            env.update({listen: f"127.0.0.1:{free_port()}" for listen in LISTENS}, LEDGERFEED_DRAIN_DELAY="1s")
            log = open(os.path.join(os.environ["SCRATCH"], name.replace("/", "-") + ".log"), "w")
            running.append((name, env, log.name, subprocess.Popen([program, *args], env=env, cwd=scratch, stdout=log, stderr=log)))
        assert running, "nothing serves"
        deadline = time.monotonic() + 60
        for name, env, log, process in running:
            while not what.ready(program, env):
                if time.monotonic() > deadline or process.poll() is not None:
                    sys.exit(f"{name} is not ready:\n{open(log).read()}")
                time.sleep(0.2)
            print(f"{name}: ready")
        for name, args, env in what.afterwards():
            print(f"{name}: {' '.join(args)}")
            r = subprocess.run([program, *args], env=env, cwd=scratch, capture_output=True, text=True)
            if r.returncode != 0:
                sys.exit(r.stdout + r.stderr)
    finally:
        for _, _, _, process in running:
            process.terminate()
    for name, _, log, process in running:
        if process.wait(timeout=45) != 0:
            sys.exit(f"{name} ended with {process.returncode}:\n{open(log).read()}")
    if os.listdir(scratch):
        sys.exit(f"the program wrote {os.listdir(scratch)}, and its file system is read-only")


main(*sys.argv[1:])
