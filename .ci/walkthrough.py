"""The README's walkthrough, run as it stands: its blocks are taken from the file, none is written again here."""

import hashlib
import hmac
import os
import re
import subprocess
import tempfile

from service import ROOT, Service


def blocks():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    section = text.split("## Five minutes with curl")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.S)


if __name__ == "__main__":
    server, receiver, *partner = blocks()
    assert server.strip() == "cargo run", "the first block starts the server"
    # The README's own addresses: 127.0.0.1:8080 and :9000.
    with Service("127.0.0.1:8080"), tempfile.TemporaryDirectory() as folder:
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
    print("the README's walkthrough works")
