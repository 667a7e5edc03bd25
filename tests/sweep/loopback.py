"""A stand-in for W&B's server: what the client calls in a grid sweep, and no more.

It hands out the points of a grid as the real one does: each once, failed ones never again, preempted ones as `resume`
under the same name, `stop` for the runs in `stops`, and `exit` when nothing is left or under way. It is as strict: 401
to another key, 404 to a run or an agent of a sweep that it does not have, 409 to the name of a run that was deleted,
400 to an operation that does not fit `wandb.graphql`: unknown fields and arguments, variables that are missing, not
declared, or of another type. An answer has the fields that were asked for, and null where the stand-in has none;
`mistakes` are its answers which the schema does not allow. It can die.
"""

import base64
import hashlib
import itertools
import json
import threading
import urllib.parse
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import graphql
import yaml
from graphql.execution.values import get_variable_values

ENTITY, KEY = "someone", "0123456789" * 4
FIELDS = {"entity": {"id": "E", "name": ENTITY}}


class RefusedError(Exception):
    """An answer that is an error: its status and its text."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Loopback(ThreadingHTTPServer):
    """The server. `runs` is what it was told of each run, by name; `deleted` are names that were taken."""

    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.dead = False
        self.deleted = set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lock = threading.RLock()
        self.sweeps, self.agents, self.runs = {}, {}, {}
        self.calls, self.mistakes = [], []
        self.points, self.resumed, self.stops = [], [], []
        self.artifacts, self.contents, self.uploads, self.tables = {}, set(), [], []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def environment(self):
        """Return the environment in which a process takes this server for W&B."""
        return {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": KEY, "WANDB_ENTITY": ENTITY, "WANDB_ERROR_REPORTING": "0"}

    def die(self):
        """Go away as a server does: nothing listens, and open connections end."""
        self.dead = True
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        """Nothing: a client that was killed has hung up."""

    def answer(self, name, told):
        with self.lock:
            self.calls.append((name, told))
            if not hasattr(self, f"on_{name}"):
                raise RefusedError(400, f"Unknown operation {name}")
            return getattr(self, f"on_{name}")(told)

    def _sweep(self, name):
        """A sweep that is there.

        Raises:
            RefusedError: it is not.
        """
        if name not in self.sweeps:
            raise RefusedError(404, f"sweep {name} not found")
        return self.sweeps[name]

    def on_Viewer(self, told):  # noqa: N802
        return {"viewer": {"id": "V", "username": ENTITY, "entity": ENTITY, "flags": "{}", "teams": {"edges": []}}}

    on_GetDefaultEntity = on_Viewer  # noqa: N815

    def on_ServerFeaturesQuery(self, told):  # noqa: N802
        return {"serverInfo": {"features": []}}

    def on_UpsertSweep(self, told):  # noqa: N802
        name = f"sweep{len(self.sweeps)}"
        config = yaml.safe_load(told["config"])
        sweep = {"id": name, "name": name, "config": told["config"], "state": "RUNNING", "method": config["method"]}
        self.sweeps[name] = sweep | {"createdAt": "2026-01-01T00:00:00Z", "runCount": 0}
        flat = {key: body.get("values", [body.get("value")]) for key, body in config["parameters"].items()}
        self.points = [dict(zip(flat, point, strict=True)) for point in itertools.product(*flat.values())]
        project = {"id": "P", "name": told["projectName"], **FIELDS}
        return {"upsertSweep": {"sweep": {"name": name, "project": project}, "configValidationWarnings": []}}

    def on_SweepWithRuns(self, told):  # noqa: N802
        return {"project": {"sweep": {**self._sweep(told["sweep"]), "runs": {"edges": []}}}}

    def on_GetSweep(self, told):  # noqa: N802
        return {"project": {"sweep": self.sweeps.get(told["name"])}}

    def on_CreateAgent(self, told):  # noqa: N802
        self._sweep(told["sweep"])
        self.agents[name := f"agent{len(self.agents)}"] = None
        return {"createAgent": {"agent": {"id": name}}}

    def on_Heartbeat(self, told):  # noqa: N802
        alive = json.loads(told["runState"])
        commands = []
        if not alive:
            self._gone(self.agents[told["id"]])
            self.agents[told["id"]] = None
            if command := self._next():
                self.agents[told["id"]] = command["run_id"]
                commands = [{**command, "program": "unused"}]
            elif not any(self.agents.values()):
                commands = [{"type": "exit"}]
        elif (name := self.agents[told["id"]]) in self.stops:
            self.stops.remove(name)
            commands = [{"type": "stop", "run_id": name}]
        return {"agentHeartbeat": {"agent": {"id": told["id"]}, "commands": json.dumps(commands)}}

    def _next(self):
        if self.resumed:
            return {**self.runs[self.resumed.pop(0)]["command"], "type": "resume"}
        if not self.points:
            return None
        args = {key: {"value": value} for key, value in self.points.pop(0).items()}
        command = {"type": "run", "run_id": f"run{len(self.runs)}", "args": args}
        self.runs[command["run_id"]] = {"command": command, "state": "pending", "attempts": 0}
        return command

    def _gone(self, name):
        """The run of an agent that runs nothing now."""
        if name and self.runs[name]["state"] in ("pending", "running"):
            self.runs[name]["state"] = "crashed"

    def on_UpsertBucket(self, told):  # noqa: N802
        if told["name"] in self.deleted:
            raise RefusedError(409, f"run {told['name']} was previously created and deleted; try a new run name")
        if told.get("sweep"):
            self._sweep(told["sweep"])
        run = self.runs.setdefault(told["name"], {"attempts": 0, "state": "pending"})
        for name in ("groupName", "jobType", "sweep", "displayName", "tags", "project", "entity"):
            run[name] = told.get(name) or run.get(name)
        run["config"] = json.loads(told.get("config") or "{}")
        if run["state"] in ("pending", "preempted"):
            run |= {"state": "running", "attempts": run["attempts"] + 1, "preempting": False}
        bucket = {"id": told["name"], "name": told["name"], "displayName": told.get("displayName")}
        bucket |= {"sweepName": told.get("sweep"), "project": {"id": "P", "name": told["project"], **FIELDS}}
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}

    def on_RunResumeStatus(self, told):  # noqa: N802
        run, bucket = self.runs.get(told["name"], {}), None
        if points := run.get("points"):
            last = json.dumps(points[-1])
            bucket = {"id": told["name"], "name": told["name"], "displayName": run["displayName"], "tags": run["tags"]}
            bucket |= {"historyLineCount": len(points), "eventsLineCount": 0, "logLineCount": 0}
            bucket |= {"historyTail": json.dumps([last]), "eventsTail": "[]", "notes": ""}
            bucket["summaryMetrics"] = json.dumps(run.get("summary", {}))
            bucket["config"] = json.dumps(run["config"])
            bucket["wandbConfig"] = json.dumps({"t": {}})
        return {"model": {"id": "P", "name": told["project"], **FIELDS, "bucket": bucket}}

    def on_Runs(self, told):  # noqa: N802
        """All runs of a project on one page."""
        edges = []
        for name, run in self.runs.items():
            if (run.get("entity") or ENTITY, run.get("project")) == (told["entity"], told["project"]):
                node = {"id": name, "name": name, "projectId": 1, "state": run["state"], "tags": run["tags"] or []}
                node |= {"displayName": run["displayName"], "group": run["groupName"], "jobType": run["jobType"]}
                node |= {"config": json.dumps(run["config"]), "summaryMetrics": json.dumps(run.get("summary", {}))}
                node |= {"user": {"name": ENTITY, "username": ENTITY}, "systemMetrics": "{}"}
                edges.append({"node": node, "cursor": name})
        page = {"endCursor": None, "hasNextPage": False}
        found = {"internalId": 1, "readOnly": False, "runCount": len(edges), "runs": {"edges": edges, "pageInfo": page}}
        return {"project": found if edges else None}

    def on_CreateRunFiles(self, told):  # noqa: N802
        files = [{"name": name, "uploadUrl": f"{self.url}/upload"} for name in told["files"]]
        return {"createRunFiles": {"runID": told["run"], "uploadHeaders": [], "files": files}}

    def on_CreateArtifact(self, told):  # noqa: N802
        """An artifact; one that is equal to the last of its name is there already."""
        asked = told["input"]
        name = asked["artifactCollectionName"]
        versions = self.artifacts.setdefault(name, [])
        if not versions or versions[-1]["digest"] != asked["digest"]:
            versions.append({"id": f"{name}:{len(versions)}", "type": asked["artifactTypeName"], "state": "PENDING"})
            versions[-1] |= {"digest": asked["digest"], "run": asked["runName"], "files": {}}
        made = {"id": versions[-1]["id"], "state": versions[-1]["state"]}
        latest = {"id": made["id"]} if made["state"] == "COMMITTED" else None
        return {"createArtifact": {"artifact": {**made, "artifactSequence": {"latestArtifact": latest}}}}

    def on_ArtifactType(self, told):  # noqa: N802
        versions = self.artifacts.get(told["name"].partition(":")[0])
        found = {"artifactType": {"name": versions[0]["type"]}} if versions else None
        return {"project": {"artifact": found}}

    def _artifact(self, name):
        return next(one for versions in self.artifacts.values() for one in versions if one["id"] == name)

    def on_CreateArtifactManifest(self, told):  # noqa: N802
        url = f"{self.url}/manifest/{told['artifactID']}"
        file = {"id": "F", "name": "wandb_manifest.json", "displayName": "wandb_manifest.json", "uploadUrl": url}
        made = {"id": f"M{told['artifactID']}", "file": {**file, "uploadHeaders": []}}
        return {"createArtifactManifest": {"artifactManifest": made}}

    def on_CreateArtifactFiles(self, told):  # noqa: N802
        """Return the place for the files of artifacts; none for a content that is known."""
        edges = []
        for file in told["input"]["artifactFiles"]:
            known = file["md5"] in self.contents
            path = urllib.parse.quote(f"{file['artifactID']}/{file['name']}")
            url = None if known else f"{self.url}/artifact/{path}?md5={urllib.parse.quote(file['md5'])}"
            node = {"id": "F", "name": file["name"], "displayName": file["name"], "uploadUrl": url}
            node |= {"uploadHeaders": [], "uploadMultipartUrls": None, "storagePath": None}
            node["artifact"] = {"id": file["artifactID"]}
            edges.append({"node": node})
            self._artifact(file["artifactID"])["files"][file["name"]] = file["md5"]
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def on_CommitArtifact(self, told):  # noqa: N802
        self._artifact(told["artifactID"])["state"] = "COMMITTED"
        return {"commitArtifact": {"artifact": {"id": told["artifactID"], "digest": "-"}}}

    def stream(self, name, told):
        """A piece of a run's file stream."""
        with self.lock:
            run = self.runs[name]
            for line in told.get("files", {}).get("wandb-summary.json", {}).get("content", []):
                run["summary"] = json.loads(line)
            lines = told.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
            run["points"] = run.get("points", []) + [json.loads(line) for line in lines]
            run["preempting"] = run["preempting"] or told.get("preempting", False)
            if told.get("complete"):
                self._complete(name, run, told.get("exitcode"))

    def _complete(self, name, run, code):
        run["exit"] = code
        self.agents = {agent: None if at == name else at for agent, at in self.agents.items()}
        if code and run["preempting"]:
            run["state"] = "preempted"
            self.resumed.append(name)
        else:
            run["state"] = "failed" if code else "finished"


@cache
def _schema():
    return graphql.build_schema((Path(__file__).parent / "wandb.graphql").read_text(encoding="utf-8"))


@cache
def _document(query):
    """Return an operation, the name of it, and why the schema does not allow it."""
    try:
        document = graphql.parse(query)
    except graphql.GraphQLError as problem:
        return None, "none", [problem]
    return document, graphql.get_operation_ast(document).name.value, graphql.validate(_schema(), document)


def _check(document, problems, told):
    """Refuse an operation that the schema does not allow, and variables that do not fit its declaration.

    Raises:
        RefusedError: 400.
    """
    declared = graphql.get_operation_ast(document).variable_definitions or () if document else ()
    known = {"locked", *(one.variable.name.value for one in declared)}  # W&B's own library sends the first undeclared
    unknown = {name for name, value in told.items() if value is not None} - known
    coerced = get_variable_values(_schema(), declared, told) if document else []
    problems = [*problems, *(coerced if isinstance(coerced, list) else ())]
    if problems or unknown:
        raise RefusedError(400, "; ".join([*(one.message for one in problems), *sorted(unknown)]))


class Handler(BaseHTTPRequestHandler):
    """GraphQL by the operation's name, the file stream, and uploads."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._send({})

    def do_PUT(self):
        body = self._body()
        with self.server.lock:
            self.server.uploads.append((self.path, len(body)))
            if ".table.json" in self.path:
                self.server.tables.append(json.loads(body))
            if self.path.startswith("/artifact/"):
                self.server.contents.add(base64.b64encode(hashlib.md5(body).digest()).decode())
        self._send({})

    def do_POST(self):
        body = json.loads(self._body() or b"{}")
        if self.server.dead:
            self.close_connection = True
            return
        document, name, problems = _document(body.get("query", ""))
        if base64.b64encode(f"api:{KEY}".encode()).decode() not in self.headers.get("Authorization", ""):
            self._send({"errors": [{"message": "who is there?"}]}, 401)
        elif self.path.endswith("/file_stream"):
            self.server.stream(self.path.split("/")[-2], body)
            self._send({})
        else:
            try:
                told = body.get("variables") or {}
                _check(document, problems, told)
                answer = self.server.answer(name, told)
                made = graphql.execute_sync(_schema(), document, root_value=answer, variable_values=told)
                if made.errors:
                    self.server.mistakes.append(f"{name}: {'; '.join(problem.message for problem in made.errors)}")
                    raise RefusedError(400, self.server.mistakes[-1])  # the client would repeat after a 500
                self._send({"data": made.data})
            except RefusedError as refusal:
                self._send({"errors": [{"message": str(refusal)}]}, refusal.status)

    def _body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _send(self, tree, status=200):
        text = json.dumps(tree).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass
