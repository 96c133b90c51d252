//! A PostgreSQL of the tests' own: made by `initdb` in a folder of its own, gone with the process.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

/// Does what it is told line by line, and says `done` after each. Whatever way this process ends, the pipe is closed then,
/// and the database goes. PostgreSQL does not run as root. The folder `small` is a file system of its own, where root
/// can mount one.
const KEEPER: &str = r#"
    # A signal to the whole group, such as Ctrl-C, is not for it: it has something to clear away.
    trap : INT TERM HUP
    dir=$1; bin=$2; port=$3; me=$(id -u)
    as_user() { if [ "$me" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
    ctl() { as_user "$bin/pg_ctl" -D "$dir/data" -l "$dir/postgres.log" -s "$@"; }
    postgres() { kill "-$1" $(head -1 "$dir/data/postmaster.pid") $(pgrep -P "$(head -1 "$dir/data/postmaster.pid")"); }
    if [ "$me" = 0 ]; then chown 65534:65534 "$dir"; fi
    as_user "$bin/initdb" -D "$dir/data" -A trust -U svc --no-sync >"$dir/log" 2>&1 &&
    as_user tee -a "$dir/data/postgresql.conf" >/dev/null <<-CONF &&
	port = $port
	unix_socket_directories = '$dir'
	listen_addresses = '127.0.0.1'
	max_connections = 300
	CONF
    ctl start >>"$dir/log" 2>&1 && echo done || exit 1
    while read -r word argument; do
        case $word in
            start) ctl start;;
            stop) ctl stop -m "$argument";;
            signal) postgres "$argument";;
            small) mkdir "$dir/small" && mount -t tmpfs -o "size=$argument" tmpfs "$dir/small" && chown 65534:65534 "$dir/small";;
        esac >>"$dir/log" 2>&1 && echo done || echo failed
    done
    { postgres CONT; ctl stop -m immediate; umount "$dir/small"; rm -rf "$dir"; } >/dev/null 2>&1
"#;

pub(crate) struct Cluster {
    folder: PathBuf,
    port: u16,
    /// Where PostgreSQL's programs are.
    pub(crate) bin: PathBuf,
    keeper: Mutex<(Child, BufReader<ChildStdout>)>,
}

/// The one that most tests share, each with a database of its own.
static SHARED: LazyLock<Option<Arc<Cluster>>> = LazyLock::new(Cluster::own);
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Cluster {
    /// A cluster that a test may stop, freeze and fill; `None` on a machine without PostgreSQL.
    pub(crate) fn own() -> Option<Arc<Self>> {
        let Some(bin) = bin() else {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "CI runs the suite on PostgreSQL, and there is none"
            );
            // Past the test harness, which keeps what a test that passes prints.
            let _ = writeln!(
                std::io::stderr(),
                "left out: there is no PostgreSQL on this machine, so its suite is not run"
            );
            return None;
        };
        let (port, number) = (free_port(), NUMBER.fetch_add(1, Ordering::SeqCst));
        let folder = std::env::temp_dir().join(format!("svc-postgres-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut keeper = Command::new("bash");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&folder).arg(&bin).arg(port.to_string());
        let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let answers = BufReader::new(keeper.stdout.take().unwrap());
        let cluster = Self { folder, port, bin, keeper: Mutex::new((keeper, answers)) };
        assert!(cluster.answer(), "{}", cluster.log());
        Some(Arc::new(cluster))
    }

    pub(crate) fn start(&self) {
        assert!(self.tell("start"), "{}", self.log());
    }

    /// Ends it in this way: `fast`, or `immediate`, which is a crash.
    pub(crate) fn stop(&self, mode: &str) {
        assert!(self.tell(&format!("stop {mode}")), "{}", self.log());
    }

    /// Sends all its processes a signal.
    pub(crate) fn signal(&self, signal: &str) {
        assert!(self.tell(&format!("signal {signal}")), "{}", self.log());
    }

    /// A small file system that it may use as a tablespace; `None` where this user cannot mount one.
    pub(crate) fn small(&self, size: &str) -> Option<PathBuf> {
        self.tell(&format!("small {size}")).then(|| self.folder.join("small"))
    }

    pub(crate) fn database(self: &Arc<Self>) -> Database {
        let name = format!("svc_{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        self.sql("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        Database { cluster: Arc::clone(self), name }
    }

    /// What `psql` prints of a statement's rows; `None` where it fails.
    fn sql(&self, database: &str, statement: &str) -> Option<String> {
        let output = self.psql(database).args(["-c", statement]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "svc", "-d", database, "-AtqX"]);
        psql
    }

    fn tell(&self, command: &str) -> bool {
        writeln!(self.keeper.lock().unwrap().0.stdin.as_ref().unwrap(), "{command}").unwrap();
        self.answer()
    }

    fn answer(&self) -> bool {
        let mut answer = String::new();
        self.keeper.lock().unwrap().1.read_line(&mut answer).unwrap();
        answer == "done\n"
    }

    fn log(&self) -> String {
        let logs =
            ["log", "postgres.log"].map(|log| std::fs::read_to_string(self.folder.join(log)).unwrap_or_default());
        logs.concat()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let (keeper, _) = self.keeper.get_mut().unwrap();
        drop(keeper.stdin.take());
        let _ = keeper.wait();
    }
}

/// A database of a test's own.
pub(crate) struct Database {
    pub(crate) cluster: Arc<Cluster>,
    name: String,
}

impl Database {
    /// In the shared cluster; `None` on a machine without PostgreSQL.
    pub(crate) fn fresh() -> Option<Self> {
        Some(SHARED.as_ref()?.database())
    }

    pub(crate) fn url_text(&self) -> String {
        self.url_through(self.cluster.port)
    }

    /// The same by way of another port of this machine.
    pub(crate) fn url_through(&self, port: u16) -> String {
        format!("postgres://svc@127.0.0.1:{port}/{}", self.name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.cluster.port
    }

    pub(crate) fn sql(&self, statement: &str) -> String {
        self.cluster.sql(&self.name, statement).unwrap_or_else(|| panic!("{statement}: {}", self.cluster.log()))
    }

    /// Waits until a statement gives this; the servers of the test go on meanwhile.
    pub(crate) async fn until(&self, statement: &str, value: &str) {
        for _ in 0..2_000 {
            if self.sql(statement) == value {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("it never came: {statement}");
    }

    /// Holds a transaction open that has done this, until the guard is dropped.
    pub(crate) fn hold(&self, statement: &str) -> Held {
        let mut psql = self.cluster.psql(&self.name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(psql.stdin.as_ref().unwrap(), "BEGIN; {statement}; SELECT 'held';").unwrap();
        let mut answers = BufReader::new(psql.stdout.take().unwrap());
        let mut line = String::new();
        while line != "held\n" {
            line.clear();
            assert!(answers.read_line(&mut line).unwrap() > 0, "{statement}: {}", self.cluster.log());
        }
        Held(psql)
    }
}

pub(crate) struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A port that stays free between two starts of a server: below those that the system gives to whoever asks for any.
pub(crate) fn free_port() -> u16 {
    loop {
        let tried = std::process::id().wrapping_mul(61).wrapping_add(NUMBER.fetch_add(1, Ordering::SeqCst)) % 12_000;
        let port = 20_000 + u16::try_from(tried).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn bin() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = debian.map(|version| version.path().join("bin")).collect();
    found.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect::<Vec<_>>());
    found.into_iter().find(|bin| bin.join("initdb").exists() && bin.join("postgres").exists())
}
