//! A PostgreSQL of the tests' own: made by `initdb` in a folder of its own, gone with the process.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use svc_server::DatabaseUrl;

/// Keeps the database until the pipe from this process is closed, however that comes. PostgreSQL does not run as root.
const KEEPER: &str = r#"
    dir=$1; bin=$2; port=$3
    run() { if [ "$(id -u)" = 0 ]; then chown -R 65534:65534 "$dir"; setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
    run "$bin/initdb" -D "$dir/data" -A trust -U svc --no-sync >"$dir/log" 2>&1 || exit 1
    run "$bin/postgres" -D "$dir/data" -p "$port" -k "$dir" -c listen_addresses=127.0.0.1 -c max_connections=300 >>"$dir/log" 2>&1 &
    echo started
    read -r _
    kill -INT %1; wait; rm -rf "$dir"
"#;

pub(crate) struct Cluster {
    port: u16,
    bin: PathBuf,
    _keeper: Child,
}

static CLUSTER: LazyLock<Option<Mutex<Cluster>>> = LazyLock::new(Cluster::start);
static DATABASES: AtomicU32 = AtomicU32::new(0);

impl Cluster {
    fn start() -> Option<Mutex<Self>> {
        let Some(bin) = bin() else {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "CI runs the suite on PostgreSQL, and there is none"
            );
            eprintln!("left out: there is no PostgreSQL on this machine, so its suite was not run");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = std::env::temp_dir().join(format!("svc-postgres-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut keeper = Command::new("bash");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&folder).arg(&bin).arg(port.to_string());
        let keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let cluster = Self { port, bin, _keeper: keeper };
        for _ in 0..600 {
            if cluster.sql("postgres", "SELECT 1").is_some() {
                return Some(Mutex::new(cluster));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("no PostgreSQL after a minute: {}", std::fs::read_to_string(folder.join("log")).unwrap_or_default());
    }

    /// What `psql` prints of a statement's rows; `None` where it fails.
    fn sql(&self, database: &str, statement: &str) -> Option<String> {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "svc", "-d", database, "-Atqc", statement]);
        let output = psql.output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

/// A database of a test's own; `None` on a machine without PostgreSQL.
pub(crate) struct Database {
    name: String,
}

impl Database {
    pub(crate) fn fresh() -> Option<Self> {
        let cluster = CLUSTER.as_ref()?.lock().unwrap();
        let name = format!("svc_{}", DATABASES.fetch_add(1, Ordering::SeqCst));
        cluster.sql("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        Some(Self { name })
    }

    pub(crate) fn url(&self) -> DatabaseUrl {
        DatabaseUrl::parse(&self.url_text()).unwrap()
    }

    pub(crate) fn url_text(&self) -> String {
        let port = CLUSTER.as_ref().unwrap().lock().unwrap().port;
        format!("postgres://svc@127.0.0.1:{port}/{}", self.name)
    }

    pub(crate) fn sql(&self, statement: &str) -> String {
        CLUSTER.as_ref().unwrap().lock().unwrap().sql(&self.name, statement).unwrap()
    }
}

fn bin() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = debian.map(|version| version.path().join("bin")).collect();
    found.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect::<Vec<_>>());
    found.into_iter().find(|bin| bin.join("initdb").exists() && bin.join("postgres").exists())
}
