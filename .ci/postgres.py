"""A PostgreSQL of a check's own, in a folder of its own."""

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile


def programs():
    """Where PostgreSQL's programs are, or None."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb") + [shutil.which("initdb")]
    return next((os.path.dirname(path) for path in found if path), None)


class Postgres:
    """`with Postgres() as url:`; it does not run as root, and is gone afterwards."""

    def __init__(self):
        self.bin = programs()
        self.user = pwd.getpwnam("nobody") if os.getuid() == 0 else None
        self.folder = tempfile.mkdtemp(prefix="svc-postgres-")
        if self.user:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.run("initdb", "-A", "trust", "-U", "svc", "--no-sync")
        self.control("start", "-w", "-o", f"-p {self.port} -k {self.folder}", "-l", os.path.join(self.folder, "log"))

    def control(self, *arguments):
        self.run("pg_ctl", *arguments)

    def run(self, program, *arguments):
        command = [os.path.join(self.bin, program), "-D", os.path.join(self.folder, "data"), *arguments]
        identity = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, **identity)

    def __enter__(self):
        return f"postgres://svc@127.0.0.1:{self.port}/postgres"

    def __exit__(self, *_):
        self.control("stop", "-m", "immediate")
        shutil.rmtree(self.folder)
