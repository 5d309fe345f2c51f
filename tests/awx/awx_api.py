# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the REST API of AWX 24.6, for the endpoints that the playbook awx uses.

The fields of each endpoint are those that the modules send. Their types, defaults and rules are those of AWX's
serializers and models. An unknown field or filter is an error. Permissions and the running of jobs are left out.
"""

import contextlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import jinja2

VERSION = "24.6.1"
ENCRYPTED = "$encrypted$"
PREFIX = "/api/v2/"
PEM = re.compile(r"\s*-----BEGIN ([A-Z ]*PRIVATE KEY)-----\n[A-Za-z0-9+/=\n]+\n-----END \1-----\s*")
TEMPLATES = ("job_templates", "workflow_job_templates", "projects", "inventory_sources")


class InvalidError(Exception):
    """A request that AWX refuses; `errors` is the body of the reply."""

    def __init__(self, errors, status=400):
        super().__init__(errors)
        self.errors, self.status = errors, status


@dataclass
class Field:
    """A field of a serializer. kind: a type, the endpoint of the object that an id refers to, or "yaml" for text."""

    kind: object = str
    default: object = ""
    required: bool = False
    null: bool = False
    choices: tuple = ()
    read_only: bool = False
    least: int = 0

    def problem(self, value, api):
        """Return what is wrong with a value; None if it is valid."""
        if value is None:
            return None if self.null else "This field may not be null."
        if isinstance(self.kind, str) and self.kind != "yaml":
            kinds = TEMPLATES if self.kind == "unified_job_templates" else (self.kind,)
            if not isinstance(value, int) or isinstance(value, bool):
                return f"Incorrect type. Expected pk value, received {type(value).__name__}."
            found = any(value in api.objects[kind] for kind in kinds)
            return None if found else f'Invalid pk "{value}" - object does not exist.'
        wanted = str if self.kind == "yaml" else self.kind
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            return f"Not a valid {wanted.__name__}."
        if self.choices and value not in self.choices:
            return f'"{value}" is not a valid choice.'
        if wanted is int and value < self.least:
            return f"Ensure this value is greater than or equal to {self.least}."
        if self.kind == "yaml" and not isinstance(json.loads(value or "{}"), dict):
            return "Cannot parse as JSON."
        if self.required and value == "":
            return "This field may not be blank."
        return None


@dataclass
class Endpoint:
    """One list of objects. unique: the fields that identify an object; related: lists of objects of other endpoints."""

    kind: str
    fields: dict
    unique: tuple = ("name", "organization")
    related: dict = field(default_factory=dict)


def text(default="", **more):
    return Field(str, default, **more)


def flag(default=False, **more):
    return Field(bool, default, **more)


def number(default=0, **more):
    return Field(int, default, **more)


def reference(endpoint, **more):
    """Return a field that refers to an object, or to none."""
    return Field(endpoint, None, null=not more.get("required", False), **more)


NAMED = {"name": text(required=True), "description": text()}
CREDENTIAL_SCHEMA = {"id", "label", "type", "secret", "multiline", "help_text", "choices", "default", "format"}

ENDPOINTS = {
    "instance_groups": Endpoint("instance_group", NAMED, ("name",)),
    "organizations": Endpoint("organization", NAMED, ("name",)),
    "execution_environments": Endpoint(
        "execution_environment",
        {
            **NAMED,
            "organization": reference("organizations"),
            "image": text(required=True),
            "pull": text(choices=("", "always", "missing", "never")),
        },
        ("name",),
    ),
    "credential_types": Endpoint(
        "credential_type",
        {
            **NAMED,
            "kind": text(required=True, choices=("cloud", "net")),
            "inputs": Field(dict, {}),
            "injectors": Field(dict, {}),
            "managed": flag(read_only=True),  # the module sends it
        },
        ("name", "kind"),
    ),
    "credentials": Endpoint(
        "credential",
        {
            **NAMED,
            "organization": reference("organizations"),
            "credential_type": reference("credential_types", required=True),
            "inputs": Field(dict, {}),
        },
        ("name", "organization", "credential_type"),
    ),
    "projects": Endpoint(
        "project",
        {
            **NAMED,
            "organization": reference("organizations"),
            "scm_type": text(choices=("", "git", "svn", "insights", "archive")),
            "scm_url": text(),
            "scm_branch": text(),
            "scm_update_on_launch": flag(),
            "scm_update_cache_timeout": number(),
            "credential": reference("credentials"),
        },
    ),
    "inventories": Endpoint(
        "inventory",
        {
            **NAMED,
            "organization": reference("organizations", required=True),
            "kind": text(choices=("", "smart", "constructed")),
            "host_filter": text(None, null=True),
        },
    ),
    "inventory_sources": Endpoint(
        "inventory_source",
        {
            **NAMED,
            "inventory": reference("inventories", required=True),
            "source": text(required=True, choices=("file", "scm", "ec2", "gce", "controller")),
            "source_path": text(),
            "source_project": reference("projects"),
            "overwrite": flag(),
            "overwrite_vars": flag(),
            "execution_environment": reference("execution_environments"),
            "update_on_launch": flag(),
            "update_cache_timeout": number(),
        },
        ("name", "inventory"),
    ),
    "job_templates": Endpoint(
        "job_template",
        {
            **NAMED,
            "organization": Field("organizations", None, null=True, read_only=True),  # the module sends it
            "job_type": text("run", choices=("run", "check")),
            "inventory": reference("inventories"),
            "project": reference("projects"),
            "playbook": text(),
            "extra_vars": Field("yaml", ""),
            "timeout": number(least=-1),
            "execution_environment": reference("execution_environments"),
            **{f"ask_{name}_on_launch": flag() for name in ("limit", "job_type", "variables")},
            "allow_simultaneous": flag(),
            "job_slice_count": number(1),
            "prevent_instance_group_fallback": flag(),
        },
        related={"credentials": "credentials", "instance_groups": "instance_groups"},
    ),
    "workflow_job_templates": Endpoint(
        "workflow_job_template",
        {**NAMED, "organization": reference("organizations"), "allow_simultaneous": flag()},
    ),
    "workflow_job_template_nodes": Endpoint(
        "workflow_job_template_node",
        {
            "workflow_job_template": reference("workflow_job_templates", required=True),
            "unified_job_template": reference("unified_job_templates"),
            "identifier": text(required=True),
        },
        ("identifier", "workflow_job_template"),
        {f"{when}_nodes": "workflow_job_template_nodes" for when in ("success", "failure", "always")},
    ),
    "schedules": Endpoint(
        "schedule",
        {
            **NAMED,
            "unified_job_template": reference("unified_job_templates", required=True),
            "rrule": text(required=True),
        },
        ("name", "unified_job_template"),
    ),
}


def secret_field(name, **more):
    return {"id": name, "label": name, "type": "string", "secret": True, **more}


KEY = {"fields": [secret_field("ssh_key_data", format="ssh_private_key", multiline=True)]}
MANAGED_TYPES = {
    "Machine": ("ssh", KEY),
    "Source Control": ("scm", KEY),
    "Vault": ("vault", {"fields": [secret_field("vault_password")], "required": ["vault_password"]}),
}


class Api:
    """The objects of one AWX, and its rules. playbooks: {address of a repository: names of its playbooks}."""

    def __init__(self, token, playbooks, instance_groups=("default",)):
        self.token, self.playbooks = token, playbooks
        self.objects = {name: {} for name in ENDPOINTS}
        self.relations = {}
        self.changes = []  # (method, path) of all requests that are not GET
        self.last = 0
        for name in instance_groups:
            self.store("instance_groups", {"name": name})
        for name, (kind, inputs) in MANAGED_TYPES.items():
            self.store("credential_types", {"name": name, "kind": kind, "inputs": inputs, "managed": True})

    # -- objects --------------------------------------------------------------------------------------------

    def store(self, endpoint, values):
        """Store a new object with defaults; return it."""
        self.last += 1
        fields = ENDPOINTS[endpoint].fields
        item = {"id": self.last, **{name: known.default for name, known in fields.items()}, **values}
        self.objects[endpoint][self.last] = item
        return item

    def named(self, endpoint, name):
        """Return the object of this name."""
        (item,) = [item for item in self.objects[endpoint].values() if item.get("name", item.get("identifier")) == name]
        return item

    def related(self, item, relation):
        """Return the objects that are associated with an object."""
        endpoint = next(ENDPOINTS[name].related[relation] for name in ENDPOINTS if item["id"] in self.objects[name])
        return [self.objects[endpoint][key] for key in self.relations.get((item["id"], relation), [])]

    def shown(self, endpoint, item):
        """Return an object as a reply contains it."""
        url = f"{PREFIX}{endpoint}/{item['id']}/"
        values = dict(item)
        summary = {}
        if endpoint == "credentials":
            kinds = {known["id"]: known for known in self.credential_fields(item)}
            values["inputs"] = {
                name: ENCRYPTED if kinds[name].get("secret") and value else value
                for name, value in item["inputs"].items()
            }
        if endpoint == "projects":
            values.update(scm_revision="0" * 40, status="successful")
            summary["current_update"] = {"id": item["id"], "status": "pending"}
        names = ENDPOINTS[endpoint].related
        return {
            **values,
            "type": ENDPOINTS[endpoint].kind,
            "url": url,
            "related": {name: f"{url}{name}/" for name in names},
            "summary_fields": summary,
        }

    # -- rules ----------------------------------------------------------------------------------------------

    def credential_fields(self, item):
        return self.objects["credential_types"][item["credential_type"]]["inputs"].get("fields", [])

    def validated(self, endpoint, values, existing=None):
        """Return the complete values of a new or changed object. Raises InvalidError."""
        described = ENDPOINTS[endpoint]
        errors = {}
        merged = dict(existing or {name: known.default for name, known in described.fields.items()})
        for name, value in values.items():
            known = described.fields.get(name)
            if known is None:
                errors[name] = ["Unknown field."]
            elif not known.read_only:
                problem = known.problem(value, self)
                if problem:
                    errors[name] = [problem]
                merged[name] = value
        for name, known in described.fields.items():
            if known.required and not existing and name not in values:
                errors[name] = ["This field is required."]
        if errors:
            raise InvalidError(errors)
        getattr(self, f"check_{described.kind}", lambda *_: None)(values, merged, existing)
        same = [
            item
            for item in self.objects[endpoint].values()
            if item["id"] != merged.get("id") and all(item[name] == merged[name] for name in described.unique)
        ]
        if same:
            raise InvalidError({"__all__": [f"{described.kind} with this {described.unique} already exists."]})
        return merged

    def check_credential_type(self, values, _merged, existing):
        if existing and existing["managed"]:
            raise InvalidError({"detail": "Modifications not allowed for managed credential types"}, 403)
        used = existing and any(
            item["credential_type"] == existing["id"] for item in self.objects["credentials"].values()
        )
        if used and values.get("inputs", existing["inputs"]) != existing["inputs"]:
            raise InvalidError({"detail": "Modifications to inputs are not allowed"}, 403)
        inputs = values.get("inputs", {})
        fields = inputs.get("fields", [])
        names = [known.get("id") for known in fields]
        if set(inputs) - {"fields", "required"} or set(inputs.get("required", [])) - set(names):
            raise InvalidError({"inputs": ["not a valid schema"]})
        for known in fields:
            right = {"id", "label"} <= set(known) <= CREDENTIAL_SCHEMA and known.get("type") in ("string", "boolean")
            if not right or not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", known["id"]):
                raise InvalidError({"inputs": [f"{known} is not a valid field"]})
        injectors = values.get("injectors", {})
        if set(injectors) - {"env", "extra_vars", "file"}:
            raise InvalidError({"injectors": ["Additional properties are not allowed"]})
        context = jinja2.Environment(undefined=jinja2.StrictUndefined)  # noqa: S701
        for templates in injectors.values():
            for name, template in templates.items():
                try:
                    context.from_string(template).render(dict.fromkeys(names, "EXAMPLE"))
                except jinja2.UndefinedError as error:
                    raise InvalidError({"injectors": [f"{name} uses an undefined field ({error})"]}) from error

    def check_credential(self, values, merged, existing):
        if not existing and merged["organization"] is None:
            raise InvalidError({"__all__": ["Missing 'user', 'team', or 'organization'."]})
        kind = self.objects["credential_types"][merged["credential_type"]]
        fields = {known["id"]: known for known in kind["inputs"].get("fields", [])}
        inputs = dict(merged["inputs"])
        for name, value in inputs.items():
            if name not in fields:
                raise InvalidError({"inputs": [f"Additional properties are not allowed ('{name}' was unexpected)"]})
            if not isinstance(value, str):
                raise InvalidError({"inputs": {name: [f"{type(value).__name__} is not of type 'string'"]}})
            if value == ENCRYPTED:
                inputs[name] = existing["inputs"][name]
            elif fields[name].get("format") == "ssh_private_key" and not PEM.fullmatch(value):
                raise InvalidError({"inputs": {name: ["Invalid certificate or key"]}})
        for name in kind["inputs"].get("required", []):
            if not inputs.get(name):
                raise InvalidError({"inputs": {name: [f"required for {kind['name']}"]}})
        if "inputs" in values:
            merged["inputs"] = inputs

    def check_project(self, _values, merged, _existing):
        if merged["scm_type"] == "git" and not merged["scm_url"]:
            raise InvalidError({"scm_url": ["SCM URL is required."]})
        if merged["credential"] is not None:
            credential = self.objects["credentials"][merged["credential"]]
            if self.objects["credential_types"][credential["credential_type"]]["kind"] != "scm":
                raise InvalidError({"credential": ["Credential kind must be 'scm'."]})

    def check_inventory_source(self, _values, merged, _existing):
        if (merged["source"] == "scm") != (merged["source_project"] is not None):
            raise InvalidError({"source_project": ["Project required for scm type sources."]})

    def check_job_template(self, _values, merged, _existing):
        if merged["project"] is None:
            raise InvalidError({"project": ["This field may not be null."]})
        project = self.objects["projects"][merged["project"]]
        if merged["playbook"] not in self.playbooks.get(project["scm_url"], ()):
            raise InvalidError({"playbook": ["Playbook not found for project."]})
        if merged["inventory"] is None:
            raise InvalidError({"inventory": ["Job Template must provide 'inventory' or allow prompting for it."]})
        merged["organization"] = project["organization"]

    def check_schedule(self, values, merged, _existing):
        rule = values.get("rrule", merged["rrule"])
        match = re.fullmatch(r"DTSTART(?:;TZID=[\w/]+:\d{8}T\d{6}|:\d{8}T\d{6}Z)((?:\s+RRULE:\S+)+)", rule)
        if not match:
            raise InvalidError({"rrule": ["Valid DTSTART and one or more rules required in rrule."]})
        for part in match.group(1).split():
            if "INTERVAL=" not in part or "SECONDLY" in part:
                raise InvalidError({"rrule": [f"INTERVAL required in rrule: {part}"]})

    def check_relation(self, endpoint, item, relation, other):
        """Raise InvalidError if an object cannot be associated."""
        if endpoint == "job_templates" and relation == "credentials":
            types = self.objects["credential_types"]
            kind = types[other["credential_type"]]
            if kind["kind"] not in ("ssh", "vault", "cloud", "net", "kubernetes"):
                raise InvalidError({"error": f"Cannot assign a Credential of kind `{kind['kind']}`."})
            if any(present["credential_type"] == kind["id"] for present in self.related(item, relation)):
                raise InvalidError({"error": f"Cannot assign multiple {kind['name']} credentials."})
        if relation.endswith("_nodes"):
            if item["workflow_job_template"] != other["workflow_job_template"]:
                raise InvalidError({"Error": "The nodes belong to different workflows."})
            if self.leads_to(other, item["id"]):
                raise InvalidError({"Error": "Cycle detected."})
            for name in ENDPOINTS[endpoint].related:
                if name.endswith("_nodes") and other["id"] in self.relations.get((item["id"], name), []):
                    raise InvalidError({"Error": "Relationship not allowed."})

    def leads_to(self, node, key):
        names = ("success_nodes", "failure_nodes", "always_nodes")
        return node["id"] == key or any(
            self.leads_to(child, key) for name in names for child in self.related(node, name)
        )

    # -- requests -------------------------------------------------------------------------------------------

    def respond(self, method, address, headers, body):
        """Return (status, JSON value)."""
        if headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {"detail": "Authentication credentials were not provided."}
        parts = urlsplit(address)
        if not parts.path.startswith(PREFIX) or not parts.path.endswith("/"):
            return 404, {"detail": "Not found."}
        if method != "GET":
            self.changes.append((method, parts.path))
        try:
            return self.route(method, parts.path[len(PREFIX) : -1].split("/"), dict(parse_qsl(parts.query, True)), body)
        except InvalidError as error:
            return error.status, error.errors

    def route(self, method, path, query, body):
        if path[0] == "project_updates" and method == "GET":
            return 200, {"id": int(path[1]), "status": "successful"}
        if path == ["unified_job_templates"] and method == "GET":
            return 200, self.listed(path[0], [(name, item) for name in TEMPLATES for item in self.all(name)], query)
        if path[0] not in ENDPOINTS:
            return 404, {"detail": "Not found."}
        endpoint = path[0]
        if len(path) == 1:
            if method == "GET":
                return 200, self.listed(endpoint, [(endpoint, item) for item in self.all(endpoint)], query)
            if method == "POST":
                return 201, self.shown(endpoint, self.store(endpoint, self.validated(endpoint, body)))
            return 405, {"detail": f'Method "{method}" not allowed.'}
        item = self.objects[endpoint].get(int(path[1]))
        if item is None:
            return 404, {"detail": "Not found."}
        if len(path) == 2:
            return self.detail(method, endpoint, item, body)
        return self.relation(method, endpoint, item, path[2], query, body)

    def all(self, endpoint):
        return self.objects[endpoint].values()

    def detail(self, method, endpoint, item, body):
        if method == "PATCH":
            item.update(self.validated(endpoint, body, item))
        elif method == "DELETE":
            del self.objects[endpoint][item["id"]]
            return 204, None
        elif method != "GET":
            return 405, {"detail": f'Method "{method}" not allowed.'}
        return 200, self.shown(endpoint, item)

    def relation(self, method, endpoint, item, relation, query, body):
        target = ENDPOINTS[endpoint].related.get(relation)
        if target is None:
            return 404, {"detail": "Not found."}
        present = self.relations.setdefault((item["id"], relation), [])
        if method == "GET":
            return 200, self.listed(target, [(target, self.objects[target][key]) for key in present], query)
        if method != "POST" or set(body) - {"id", "disassociate"} or body.get("id") not in self.objects[target]:
            return 400, {"msg": "'id' is not the id of an object, or a field is unknown"}
        if body.get("disassociate"):
            present.remove(body["id"])
        elif body["id"] not in present:
            self.check_relation(endpoint, item, relation, self.objects[target][body["id"]])
            present.append(body["id"])
        return 204, None

    def listed(self, endpoint, items, query):
        """Return a page with the objects that a query selects."""
        found = [self.shown(name, item) for name, item in items if self.selected(endpoint, name, item, query)]
        return {"count": len(found), "next": None, "previous": None, "results": found}

    def selected(self, endpoint, name, item, query):
        unknown = set(query) - {"id", "type", "organization", *ENDPOINTS[name].fields}
        if unknown:
            raise InvalidError({"detail": f"{endpoint} has no field named {', '.join(sorted(unknown))}"})
        values = {**item, "type": ENDPOINTS[name].kind}
        return all(str(values.get(key)) == value for key, value in query.items())


@contextlib.contextmanager
def serving(api):
    """Serve an Api on a free port of the loopback interface as long as the context lasts; give its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            text_sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                body = json.loads(text_sent) if text_sent else {}
                status, value = api.respond(self.command, self.path, self.headers, body)
            reply = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", VERSION)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_arguments):
            pass

    for method in ("GET", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    lock = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
