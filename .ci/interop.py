"""A delivery of the running server is believed, unchanged, by Python alone and by the packages standardwebhooks of PyPI and
npm."""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import tempfile
import venv
from http.server import BaseHTTPRequestHandler, HTTPServer

from service import ROOT, SECRET, Service


class Receiver(BaseHTTPRequestHandler):
    """Keeps one delivery: its headers and its raw body."""

    def do_POST(self):
        self.server.body = self.rfile.read(int(self.headers["content-length"]))
        self.server.headers = self.headers
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def python_alone(service):
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    server.timeout = 20
    created = service.deliver_to(f"http://127.0.0.1:{server.server_port}/webhook", "ação/python")
    server.handle_request()
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = hmac.new(key, server.body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(signed, server.headers["x-svc-signature"])
    content = b".".join([server.headers["webhook-id"].encode(), server.headers["webhook-timestamp"].encode(), server.body])
    standard = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    assert hmac.compare_digest(standard, server.headers["webhook-signature"])
    body = json.loads(server.body)
    assert list(body) == ["id_proposta_svc", "id_proposta_parceiro", "status", "timestamp"]
    assert (body["id_proposta_svc"], body["id_proposta_parceiro"], body["status"]) == (created, "ação/python", "ACEITO")
    print("believed by Python's standard library")
    python_package(server)


PYTHON = """
import json, sys
from standardwebhooks import Webhook
secret, headers, body = json.load(sys.stdin)
Webhook(secret).verify(body, headers)
try:
    Webhook(secret).verify(body + " ", headers)
    sys.exit("an altered body was believed")
except Exception as error:
    print(type(error).__name__)
"""


def python_package(server):
    folder = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "standardwebhooks-1.0.1")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "installed")):
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "standardwebhooks==1.0.1"], check=True)
        open(os.path.join(folder, "installed"), "w", encoding="utf-8").close()
    delivery = json.dumps([SECRET, dict(server.headers.items()), server.body.decode()])
    done = subprocess.run([python, "-c", PYTHON], input=delivery, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "WebhookVerificationError"), done.stdout + done.stderr
    print("believed by the Python package standardwebhooks")


NODE = """
import { Webhook } from "standardwebhooks";
import { createServer } from "node:http";
const webhook = new Webhook(process.argv[2]);
const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts).toString();
    const notification = webhook.verify(body, request.headers);
    let altered = false;
    try { webhook.verify(body + " ", request.headers); altered = true; } catch {}
    response.writeHead(204).end();
    console.log(JSON.stringify({ notification, altered }));
    server.close();
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"""


def node(service):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as file:
            file.write('{"type": "module", "private": true}')
        with open(os.path.join(folder, "receiver.js"), "w", encoding="utf-8") as file:
            file.write(NODE)
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(["npm", "install", *quiet, "standardwebhooks@1"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        receiver = subprocess.Popen(["node", "receiver.js", SECRET], cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            port = receiver.stdout.readline().strip()
            created = service.deliver_to(f"http://127.0.0.1:{port}/webhook", "ação/node")
            answer = json.loads(receiver.stdout.readline())
            assert receiver.wait(20) == 0
        finally:
            receiver.kill()
    assert answer["notification"]["id_proposta_svc"] == created
    assert not answer["altered"], "an altered body was believed"
    print("believed by the npm package standardwebhooks")


if __name__ == "__main__":
    os.chdir(ROOT)
    with Service() as running:
        python_alone(running)
        node(running)
