"""The README's walkthrough, run as it stands: its blocks are taken from the file, none is written again here. Once with the
store in memory, and once with a database, where it outlives the server."""

import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error

from postgres import Postgres, programs
from service import ROOT, Service

# The README's own addresses: this one, and 127.0.0.1:9000 for the receiver.
LISTEN = "127.0.0.1:8080"


def blocks():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    section = text.split("## Five minutes with curl")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.S)


def walk():
    """Does what a reader does; gives the id of the proposal."""
    server, receiver, *partner = blocks()
    assert server.strip() == "cargo run", "the first block starts the server"
    with tempfile.TemporaryDirectory() as folder:
        listening = subprocess.Popen(["bash", "-c", "exec " + receiver], stdout=subprocess.PIPE, text=True)
        try:
            script = "until (: >/dev/tcp/127.0.0.1/9000) 2>/dev/null; do sleep 0.1; done\n" + "".join(partner)
            done = subprocess.run(["bash", "-euc", script], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
            assert '"status":"ACEITO"' in done.stdout and '"ja_respondida":false' in done.stdout, done.stdout
            assert '"webhook":{"id":"evt_' in done.stdout and '"avisos":[' in done.stdout, done.stdout
            headers = {}
            for line in listening.stdout:
                name, colon, value = line.strip().partition(": ")
                if line.startswith("{"):
                    body = line.strip()
                    break
                headers |= {name: value} if colon else {}
        finally:
            listening.kill()
    signed = hmac.new(b"segredo-de-demonstracao-svc", body.encode(), hashlib.sha256).hexdigest()
    assert headers["x-svc-signature"] == signed, (headers, body)
    assert '"id_proposta_parceiro":"PARC-12345"' in body
    return json.loads(body)["id_proposta_svc"]


def still_there(service, proposal):
    login = {"client_id": "parceiro-demo", "client_secret": "segredo-demo"}
    token = service.call("/v1/login", login)["access_token"]
    record = service.call(f"/v1/propostas/{proposal}", token=token)
    assert record["status"] == "ACEITO" and record["id_proposta_parceiro"] == "PARC-12345", record
    assert record["webhook"]["id"] == f"evt_{proposal}" and record["webhook"]["tentativas"], record
    assert service.call(f"/confirmar/{proposal}?acao=aceitar")["ja_respondida"]
    try:
        service.call(f"/confirmar/{proposal}?acao=recusar")
        raise AssertionError("a second answer was taken")
    except urllib.error.HTTPError as error:
        assert error.code == 409


if __name__ == "__main__":
    with Service(LISTEN):
        walk()
    print("the README's walkthrough works")
    if not programs():
        if os.environ.get("CI") == "true":
            sys.exit("there is no PostgreSQL, and CI walks with a database too")
        print("left out: the same with a database, since there is no PostgreSQL")
        sys.exit(0)
    with Postgres() as url:
        keys = {"SVC_TOKEN_KEY": "a token key that is long enough ...", "SVC_LINK_KEY": "a link key that is long enough ...."}
        settings = {"SVC_DATABASE_URL": url} | keys
        with Service(LISTEN, settings):
            done = walk()
        with Service(LISTEN, settings) as again:
            still_there(again, done)
    print("and with a database, where it is all there after a restart")
