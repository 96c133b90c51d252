"""What the scripts beside this one share: the built server on a free port, and calls to it."""

import json
import os
import re
import subprocess
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECRET = "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj"


class Service:
    """`with Service() as service:` ends the server at its end."""

    def __init__(self, listen="127.0.0.1:0", settings=None):
        program = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "debug", "svc-server")
        environment = os.environ | (settings or {})
        self.process = subprocess.Popen([program, "--listen", listen], env=environment, stdout=subprocess.PIPE, text=True)
        greeting = self.process.stdout.readline()
        self.base = re.search(r"http://\S+", greeting).group(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(20) == 0, "the server did not end well"

    def call(self, path, body=None, token=None):
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def deliver_to(self, url, partner_id):
        """Takes one proposal to its answer, so that its notification goes to `url`; gives its id."""
        login = {"client_id": "parceiro-demo", "client_secret": "segredo-demo"}
        token = self.call("/v1/login", login)["access_token"]
        with open(os.path.join(ROOT, "svc-core/tests/proposals/valid/walkthrough.json"), encoding="utf-8") as file:
            proposal = json.load(file) | {"id_proposta_parceiro": partner_id, "webhook_url": url}
        created = self.call("/v1/propostas", proposal, token)["id_proposta_svc"]
        self.call(f"/confirmar/{created}?acao=aceitar")
        return created
