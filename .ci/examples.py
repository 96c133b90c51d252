"""The examples as their own comments say to run them: a partner and each receiver, against the built server."""

import json
import os
import re
import subprocess
import tempfile

from service import ROOT, SECRET, Service


def program(name):
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "debug", name)


def line(process, pattern):
    """The first line of a program's output that has this in it."""
    for text in process.stdout:
        found = re.search(pattern, text)
        if found:
            return found
    raise AssertionError(f"{process.args}: no line with {pattern}")


def journey(service, receiver, action, told):
    """A proposal by the partner's program, answered, and what its receiver makes of it."""
    environment = os.environ | {"SVC_WEBHOOK_SECRET": SECRET, "LISTEN": "127.0.0.1:0"}
    listening = subprocess.Popen([program(receiver)], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        url = line(listening, r"http://\S+").group(0)
        with open(os.path.join(ROOT, "examples/proposta.json"), encoding="utf-8") as file:
            proposal = json.load(file) | {"id_proposta_parceiro": receiver, "webhook_url": url}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(proposal, file)
            file.flush()
            login = {"SVC_BASE_URL": service.base, "SVC_CLIENT_ID": "parceiro-demo", "SVC_CLIENT_SECRET": "segredo-demo"}
            command = [program("partner"), file.name]
            partner = subprocess.Popen(command, env=os.environ | login, stdout=subprocess.PIPE, text=True)
            created = line(partner, r"is (\S+) to the service").group(1)
            service.call(f"/confirmar/{created}?acao={action}")
            answered = line(partner, rf"{receiver} is (\S+)").group(1)
            assert partner.wait(20) == 0
        assert answered == {"aceitar": "ACEITO", "recusar": "RECUSADO"}[action]
        line(listening, rf"{receiver} is {told}$")
    finally:
        listening.kill()
    print(f"partner and {receiver}")


if __name__ == "__main__":
    with Service() as running:
        journey(running, "receiver-axum", "aceitar", "accepted")
        journey(running, "receiver-hyper", "recusar", "RECUSADO")
        journey(running, "receiver-warp", "aceitar", "ACEITO")
