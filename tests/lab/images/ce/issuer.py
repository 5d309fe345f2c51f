"""A small issuer of SciTokens for tests: its keys over HTTPS, and tokens with any life, audience, scope and subject.

`issuer.py serve` serves the OpenID configuration and the public key. `lab-scitoken` prints a token.
"""

import argparse
import http.server
import json
import pathlib
import ssl
import sys
import time
import uuid

import jwt

PORT = 8443
ISSUER = f"https://ce:{PORT}"
FILES = pathlib.Path("/etc/ce-lab")
KEY_ID = "lab"


def signing_key():
    """Return the private key as PyJWT's ES256 uses it."""
    return jwt.get_algorithm_by_name("ES256").prepare_key((FILES / "issuer.key").read_bytes())


def documents():
    """Return {path: document} of what a client reads to verify a token."""
    public = jwt.get_algorithm_by_name("ES256").to_jwk(signing_key().public_key(), as_dict=True)
    return {
        "/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"},
        "/jwks": {"keys": [{**public, "kid": KEY_ID, "alg": "ES256", "use": "sig"}]},
    }


def serve():
    """Serve the documents over HTTPS."""
    pages = {path: json.dumps(document).encode() for path, document in documents().items()}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = pages.get(self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

    server = http.server.ThreadingHTTPServer(("", PORT), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(FILES / "ce.crt", FILES / "ce.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def token(options):
    """Return a signed token."""
    now = int(time.time())
    # A token that has expired was valid once.
    issued = min(now, now + options.life) - 60
    claims = {
        "ver": "scitoken:2.0",
        "iss": options.issuer,
        "sub": options.subject,
        "aud": options.audience,
        "scope": options.scope,
        "jti": str(uuid.uuid4()),
        "iat": issued,
        "nbf": issued,
        "exp": now + options.life,
    }
    return jwt.encode(claims, signing_key(), algorithm="ES256", headers={"kid": KEY_ID})


def main():
    """Serve, or print a token."""
    if sys.argv[1:] == ["serve"]:
        return serve()
    parser = argparse.ArgumentParser(prog="lab-scitoken", description="print a SciToken")
    parser.add_argument("--life", type=int, default=3600, help="seconds from now; below 0: expired (default: 3600)")
    parser.add_argument("--audience", default="ce:9619", help="default: ce:9619")
    parser.add_argument("--scope", default="condor:/READ condor:/WRITE", help="default: condor:/READ condor:/WRITE")
    parser.add_argument("--subject", default="pilot", help="default: pilot")
    parser.add_argument("--issuer", default=ISSUER, help=f"default: {ISSUER}")
    return print(token(parser.parse_args()))


if __name__ == "__main__":
    main()
