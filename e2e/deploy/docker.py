#!/usr/bin/env python3
"""As much of docker, helm and kubectl as docs/deploy.md and the compose files use, without a daemon, a registry or a cluster.

An image is one that buildah has built; in the place of postgres and haproxy stand the programs of this machine. A container is a process
in namespaces of its own: a network behind a bridge, with names that resolve; its host name, mounts and processes; the image's files as
its root, read-only if the file says so; the image's user. Published ports are not published: what asks a container is in one too.
A release of the chart is the container of its pods, as the real helm renders them: arguments, environment, user, volume and readiness.
Services, disruption budgets, seccomp profiles and resources do not exist here. It needs root, buildah and ip.
State is in the directory $DOCKER_STATE.
"""
import json, os, re, shutil, signal, socket, struct, subprocess, sys, time

STATE = os.environ["DOCKER_STATE"]
NET, HOST = "10.213.0", "10.213.0.1"
IMAGE = os.environ["GRAPNEL_IMAGE"]
SELF = os.path.realpath(__file__)  # it is called by the names docker, helm and kubectl


def sh(*command, check=True, **more):
    return subprocess.run(command, check=check, text=True, **more)


def path(*parts):
    return os.path.join(STATE, *parts)


def containers():
    if not os.path.exists(path("containers.json")):
        return {}
    with open(path("containers.json")) as file:
        return json.load(file)


def save(all):
    with open(path("containers.new"), "w") as file:
        json.dump(all, file)
    os.replace(path("containers.new"), path("containers.json"))  # the names are read at any time


def dns():
    """Answers the names of containers, and that there are no others."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((HOST, 53))
    while True:
        query, asker = server.recvfrom(512)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += query[at] + 1
        kind = struct.unpack("!H", query[at + 1 : at + 3])[0]
        is_ = containers().get(labels[0])
        known = is_ is not None and is_["pid"] is not None
        answer = kind == 1 and known
        head = query[:2] + struct.pack("!HHHHH", 0x8180 if known else 0x8183, 1, int(answer), 0, 0)
        record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 1, 4) + socket.inet_aton(is_["ip"]) if answer else b""
        server.sendto(head + query[12 : at + 5] + record, asker)


def network():
    if os.path.exists(path("dns.pid")):
        return
    sh("ip", "link", "del", "grp0", check=False, capture_output=True)  # left by one that was killed
    sh("ip", "link", "add", "grp0", "type", "bridge")
    sh("ip", "addr", "add", HOST + "/24", "dev", "grp0")
    sh("ip", "link", "set", "grp0", "up")
    with open(path("dns.log"), "w") as log:
        daemon = subprocess.Popen([sys.executable, SELF, "dns"], stdout=log, stderr=log, start_new_session=True)
    with open(path("dns.pid"), "w") as file:
        file.write(str(daemon.pid))


def image():
    """The image's configuration, and a directory with its files."""
    buildah = ("buildah", "--storage-driver", "vfs")
    name = sh(*buildah, "from", "--pull-never", IMAGE, stdout=subprocess.PIPE).stdout.strip()
    config = json.loads(sh(*buildah, "inspect", name, stdout=subprocess.PIPE).stdout)["Docker"]["config"]
    return config, sh(*buildah, "mount", name, stdout=subprocess.PIPE).stdout.strip()


def address():
    """The address of the next container."""
    used = {c["ip"] for c in containers().values()}
    return next(a for a in (f"{NET}.{n}" for n in range(2, 250)) if a not in used)


def create(name, service):
    all, ip = containers(), address()
    network()
    all[name] = {"ip": ip, "pid": None, "service": service}
    save(all)
    short = "v" + ip.split(".")[-1]
    sh("ip", "netns", "add", name)
    sh("ip", "link", "add", short + "h", "type", "veth", "peer", "name", "eth0", "netns", name)
    sh("ip", "link", "set", short + "h", "master", "grp0", "up")
    for command in (["addr", "add", ip + "/24", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
        sh("ip", "-n", name, *command)
    os.makedirs(f"/etc/netns/{name}", exist_ok=True)
    with open(f"/etc/netns/{name}/resolv.conf", "w") as file:
        file.write(f"nameserver {HOST}\n")
    start(name)


def inside(name, service, command):
    """The command line that runs a command in a container of the image, and its environment."""
    config, root = service["config"], service["root"]
    env = dict(e.split("=", 1) for e in config["Env"]) | service.get("environment", {})
    uid, gid = service.get("user", config["User"]).split(":")
    return ["setpriv", "--no-new-privs", shutil.which("chroot"), f"--userspec={uid}:{gid}", root, *command], env


def start(name):
    all = containers()
    service = all[name]["service"]
    if service["image"].startswith("postgres"):
        data, env = path("volumes", "postgres"), service["environment"]
        found = sorted(d for d in os.listdir("/usr/lib/postgresql"))[-1]
        bin, run = f"/usr/lib/postgresql/{found}/bin/", ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        if not os.path.exists(data):
            os.makedirs(data)
            shutil.chown(data, "postgres")
            os.chmod(STATE, 0o755)
            os.chmod(path("volumes"), 0o755)
            sh(*run, "bash", "-c", f"{bin}initdb -A scram-sha-256 -U {env['POSTGRES_USER']} -E UTF8 -D {data} --pwfile=<(printenv POSTGRES_PASSWORD)",
               env=env | {"PATH": os.environ["PATH"]}, stdout=subprocess.DEVNULL)
            sh(*run, bin + "postgres", "--single", "-D", data, "postgres", input=f"CREATE DATABASE {env['POSTGRES_DB']}\n", stdout=subprocess.DEVNULL)
            with open(os.path.join(data, "pg_hba.conf"), "a") as file:
                file.write("host all all all scram-sha-256\n")
        command, env, script = [*run, bin + "postgres", "-D", data, "-h", "*", "-k", ""], {"PATH": os.environ["PATH"]}, 'exec "$@"'
    elif service["image"].startswith("haproxy"):
        command, env, script = ["haproxy", "-db", "-f", service["volumes"][0].split(":")[0]], {"PATH": os.environ["PATH"]}, 'exec "$@"'
    else:
        if "root" not in service:
            service["config"], service["root"] = image()
            for dir in ("proc", "etc", "dev"):
                os.makedirs(os.path.join(service["root"], dir), exist_ok=True)
        root = service["root"]
        shutil.copy(f"/etc/netns/{name}/resolv.conf", os.path.join(root, "etc", "resolv.conf"))
        script = 'mount --bind "$ROOT" "$ROOT"; mount -t proc proc "$ROOT/proc"; '
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            if service.get("group") and not os.path.exists(path("volumes", source)):  # a new volume of Kubernetes is empty
                os.mkdir(path("volumes", source))
                os.chown(path("volumes", source), 0, service["group"])
                os.chmod(path("volumes", source), 0o2775)
            # One of docker has the files and the owner that the image has there.
            if not os.path.exists(path("volumes", source)):
                sh("cp", "-a", root + target, path("volumes", source))
            script += f'mount --bind {path("volumes", source)} "$ROOT"{target}; '
        if service.get("read_only"):
            script += 'mount -o remount,bind,ro "$ROOT"; '
        command, env = inside(name, service, service["config"]["Entrypoint"] + (service.get("command") or service["config"]["Cmd"]))
        script += 'unset ROOT; exec "$@"'
        env["ROOT"] = root
    host = service.get("hostname", name)
    script = f"set -e; hostname {host}; " + script
    with open(path(name + ".log"), "a") as log:
        process = subprocess.Popen(
            ["ip", "netns", "exec", name, "unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", *command],
            env={"PATH": os.environ["PATH"]} | env, stdout=log, stderr=log, start_new_session=True)
    all[name]["pid"] = process.pid
    save(all)


def first(pid):
    """The process that is number 1 in a container: a child of unshare, which waits for it."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def stop(name):
    all = containers()
    pid = all[name]["pid"]
    if pid is None:
        return
    for child in first(pid):
        os.kill(child, {"postgres": signal.SIGINT, "haproxy": signal.SIGKILL}.get(all[name]["service"]["image"].split(":")[0], signal.SIGTERM))
    end = time.time() + 45
    while os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().split()[2] != "Z":
        if time.time() > end:
            sys.exit(f"{name} does not stop")
        time.sleep(0.05)
    all[name]["pid"] = None
    save(all)


def remove(name):
    if name not in containers():
        return  # it was never made
    stop(name)
    all = containers()
    sh("ip", "link", "del", "v" + all[name]["ip"].split(".")[-1] + "h")
    sh("ip", "netns", "del", name)
    shutil.rmtree(f"/etc/netns/{name}")
    if "root" in all[name]["service"]:
        shutil.rmtree(all[name]["service"]["root"], ignore_errors=True)
    del all[name]
    save(all)
    if not all:
        sh("ip", "link", "del", "grp0")
        os.kill(int(open(path("dns.pid")).read()), signal.SIGTERM)
        os.remove(path("dns.pid"))


def execute(name, command):
    """Runs a command in a container, in the namespaces of its first process."""
    is_ = containers()[name]
    service = is_["service"]
    if "config" not in service:
        return sh("ip", "netns", "exec", name, *command, check=False).returncode
    line, env = inside(name, service, command)
    if not first(is_["pid"]):
        sys.exit(f"{name} does not run; its log: " + open(path(name + ".log")).read()[-2000:])
    return sh("nsenter", "-t", str(first(is_["pid"])[0]), "--net", "--uts", "--mount", "--pid", *line, check=False, env=env).returncode


def healthy(name):
    """Waits until the check of health in the image, the compose file, or the pod has succeeded."""
    is_ = containers()[name]
    service, check = is_["service"], [sys.executable, SELF, "exec", name]
    if "ready" in service:  # asked by the node that the pod is on
        check = [sys.executable, "-c", "import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=2)"]
        test = [f"http://{is_['ip']}{service['ready']}"]
    elif "healthcheck" in service:
        test = ["sh", "-c", service["healthcheck"]["test"][1] + " -h 127.0.0.1"]
    elif "config" in service:
        test = service["config"]["Healthcheck"]["Test"][1:]
    else:
        return
    end = time.time() + 60
    while True:
        done = subprocess.run([*check, *test], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            return
        if time.time() > end:
            sys.exit(f"{name} does not get healthy; its log: " + open(path(name + ".log")).read()[-2000:])
        time.sleep(0.2)


def compose(args):
    import yaml

    file = "compose.yaml"
    if args[0] == "-f":
        file, args = args[1], args[2:]
    values = dict(os.environ)
    if os.path.exists(".env"):
        values |= dict(line.strip().split("=", 1) for line in open(".env") if "=" in line)

    def value(m):
        if not values.get(m[1]) and m[2] == "?":
            sys.exit(f"{m[1]} is not set")
        return values.get(m[1]) or m[3]

    def filled(node):
        if isinstance(node, dict):
            return {key: filled(item) for key, item in node.items()}
        if isinstance(node, list):
            return [filled(item) for item in node]
        return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, node) if isinstance(node, str) else node

    services = filled(yaml.safe_load(open(file))["services"])
    if args[0] == "up":
        wanted = [arg for arg in args[1:] if not arg.startswith("-")]
        services = {n: s for n, s in services.items() if n in wanted or not wanted}
        waits = {n: list(s.get("depends_on", [])) for n, s in services.items()}
        while waits:
            for name in [n for n, w in waits.items() if not any(d in waits for d in w)]:
                del waits[name]
                create(name, services[name])
                healthy(name)
    elif args[0] == "down":
        for name in services:
            remove(name)
    elif args[0] == "exec":
        sys.exit(execute(args[1], args[2:]))
    elif args[0] in ("stop", "start", "restart"):
        ordinary(args[0], args[1:])
    else:
        sys.exit("no such command here: " + " ".join(args))


def pods(name):
    return [c for c in containers() if re.fullmatch(re.escape(name) + r"-\d+", c)]


def helm(args):
    """install NAME CHART, uninstall NAME."""
    import yaml

    name = args[1]
    if args[0] == "uninstall":
        return [remove(pod) for pod in pods(name)]
    more = [arg for arg in args[3:] if arg != "--wait"]
    allow = "settings.egress_allow={" + os.environ.get("GRAPNEL_EGRESS_ALLOW", "") + "}"
    manifests = sh(os.environ["HELM"], "template", *args[1:3], "--kube-version", "1.37", "--set", allow, *more, stdout=subprocess.PIPE).stdout
    of = next(m["spec"] for m in yaml.safe_load_all(manifests) if m["kind"] in ("StatefulSet", "Deployment"))
    pod = of["template"]["spec"]
    box, rights = pod["containers"][0], pod["securityContext"]
    probe = box["readinessProbe"]["httpGet"]
    port = next(p["containerPort"] for p in box["ports"] if p["name"] == probe["port"])
    for number in range(of["replicas"]):
        create(f"{name}-{number}", {
            "image": box["image"], "command": box["args"], "environment": environment(box["env"], address()),
            "read_only": box["securityContext"]["readOnlyRootFilesystem"], "ready": f":{port}{probe['path']}",
            "user": f"{rights['runAsUser']}:{rights['runAsGroup']}", "group": rights["fsGroup"],
            "volumes": [f"{v['name']}:{v['mountPath']}" for v in box.get("volumeMounts", [])]})
    if "--wait" in args:
        for pod in pods(name):
            healthy(pod)


def environment(entries, ip):
    """The environment of a pod."""
    env = {}
    for entry in entries:
        of = entry.get("valueFrom", {})
        if "secretKeyRef" in of:
            with open(path("secret-" + of["secretKeyRef"]["name"])) as file:
                value = json.load(file).get(of["secretKeyRef"]["key"])
            if value is None and of["secretKeyRef"].get("optional"):
                continue
        else:
            value = {"status.podIP": ip}[of["fieldRef"]["fieldPath"]] if of else entry["value"]
        env[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: env[m[1]], value)
    return env


def kubectl(args):
    """create secret generic NAME, exec WHAT/NAME -- COMMAND, rollout restart WHAT/NAME."""
    if args[0] == "create":
        with open(path("secret-" + args[3]), "w") as file:
            json.dump(dict(arg.removeprefix("--from-literal=").split("=", 1) for arg in args[4:]), file)
    elif args[0] == "exec":
        sys.exit(execute(pods(args[1].split("/")[1])[0], args[3:]))
    else:
        ordinary(args[1], pods(args[2].split("/")[1]))


def ordinary(command, names):
    for name in names:
        if command != "start":
            stop(name)
        if command != "stop":
            start(name)
            healthy(name)


def main(args):
    os.makedirs(path("volumes"), exist_ok=True)
    called = {"helm": helm, "kubectl": kubectl}.get(os.path.basename(sys.argv[0]))
    if called:
        return called(args)
    command, args = args[0], args[1:]
    if command == "dns":
        dns()
    elif command == "compose":
        compose(args)
    elif command == "run":
        service, name = {"volumes": [], "environment": {"GRAPNEL_EGRESS_ALLOW": os.environ.get("GRAPNEL_EGRESS_ALLOW", "")}}, None
        while args[0].startswith("-"):
            flag = args.pop(0)
            if flag == "--name":
                name = args.pop(0)
            elif flag == "-v":
                service["volumes"].append(args.pop(0))
            elif flag == "-p":
                args.pop(0)
        service["image"], service["command"] = args[0], args[1:]
        create(name, service)
    elif command == "exec":
        sys.exit(execute(args[0], args[1:]))
    elif command == "rm":
        for name in args:
            if name != "-f":
                remove(name)
    elif command in ("stop", "start", "restart"):
        ordinary(command, args)
    else:
        sys.exit("no such command here: " + command)


main(sys.argv[1:])
