//! The way to a database: its URL, TLS, the pool, the schema.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod};
use refinery_core::error::Kind;
use refinery_core::{Migration, Runner};
use tokio::time::{sleep, timeout};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::{Url, form_urlencoded};

use crate::store::OpenError;
use crate::tls;

/// Connections of one server to its database: more than statements of one kind can hold at a time, of which there are four.
const POOL_SIZE: usize = 16;
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
/// What the database itself ends (D20): a statement, the wait for a lock, and a transaction that nobody goes on with. Compiling a statement takes
/// longer than running any of ours. All of ours go by an index, and a plan made while a table was small must too.
const SESSION: &str = "-c statement_timeout=5000 -c lock_timeout=500 -c idle_in_transaction_session_timeout=10000 -c jit=off -c enable_seqscan=off";
/// Between two looks whether it is one's turn.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Servers that bring the schema up to date take turns by this number.
const MIGRATION_LOCK: i64 = 0x5356_4331;

/// The schema's versions, in their order. None is edited once it has been released.
const MIGRATIONS: [(&str, &str); 2] =
    [("V1__first", include_str!("V1__first.sql")), ("V2__envio", include_str!("V2__envio.sql"))];

/// Where the database is and who asks, from a `postgres://` URL. `Debug` shows none of it.
#[derive(Clone)]
pub struct DatabaseUrl {
    config: Config,
    authorities: Option<String>,
}

/// A database URL that cannot be used. It says why, and nothing of the text, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDatabaseUrl {
    /// Not a URL, or with parts that PostgreSQL does not have.
    #[error("not a URL such as postgres://user:password@host/database")]
    Malformed,
    /// A password and data would travel in clear.
    #[error("another machine is reached with sslmode=require or verify-full only")]
    InClear,
    /// The file of `sslrootcert` cannot be read.
    #[error("sslrootcert names a file that cannot be read")]
    Authorities,
}

impl DatabaseUrl {
    /// Reads a URL.
    ///
    /// `sslmode` is `disable`, `prefer` (the default), `require` or `verify-full`; certificates are always checked when TLS is
    /// used, so the last two are one. Another machine than this one is reached with one of these only. `sslrootcert` names a
    /// file of certificate authorities.
    ///
    /// ```
    /// use svc_server::{BadDatabaseUrl, DatabaseUrl};
    /// assert!(DatabaseUrl::parse("postgres://svc:segredo@127.0.0.1/svc").is_ok());
    /// assert!(DatabaseUrl::parse("postgres://svc@db.example/svc?sslmode=verify-full").is_ok());
    /// assert_eq!(DatabaseUrl::parse("postgres://svc@db.example/svc").unwrap_err(), BadDatabaseUrl::InClear);
    /// let elsewhere = DatabaseUrl::parse("postgres://svc@localhost/svc?hostaddr=10.0.0.5");
    /// assert_eq!(elsewhere.unwrap_err(), BadDatabaseUrl::InClear);
    /// assert_eq!(DatabaseUrl::parse("mysql://svc@127.0.0.1/svc").unwrap_err(), BadDatabaseUrl::Malformed);
    /// ```
    pub fn parse(text: &str) -> Result<Self, BadDatabaseUrl> {
        let mut url = Url::parse(text).map_err(|_| BadDatabaseUrl::Malformed)?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(BadDatabaseUrl::Malformed);
        }
        let mut authorities = None;
        let mut pairs = Vec::new();
        for (name, value) in url.query_pairs() {
            match (&*name, &*value) {
                // The crate below knows neither, and checks certificates whenever it uses TLS.
                ("sslmode", "verify-full" | "verify-ca") => pairs.push((name.into_owned(), "require".to_owned())),
                ("sslrootcert", path) => {
                    authorities = Some(std::fs::read_to_string(path).map_err(|_| BadDatabaseUrl::Authorities)?);
                }
                _ => pairs.push((name.into_owned(), value.into_owned())),
            }
        }
        url.set_query(None);
        if !pairs.is_empty() {
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
            // The crate below takes a plus for itself.
            url.set_query(Some(&query.replace('+', "%20")));
        }
        let mut config = Config::from_str(url.as_str()).map_err(|_| BadDatabaseUrl::Malformed)?;
        let here = |host: &Host| match host {
            Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
            Host::Unix(_) => true,
        };
        let all_here = config.get_hosts().iter().all(here) && config.get_hostaddrs().iter().all(|ip| ip.is_loopback());
        if config.get_ssl_mode() != SslMode::Require && !all_here {
            return Err(BadDatabaseUrl::InClear);
        }
        if config.get_hosts().is_empty() || config.get_dbname().is_none() {
            return Err(BadDatabaseUrl::Malformed);
        }
        let options = [config.get_options().unwrap_or_default(), SESSION].join(" ");
        config.options(options.trim()).connect_timeout(CONNECT_DEADLINE).tcp_user_timeout(Duration::from_secs(10));
        config.application_name("svc-server").keepalives_idle(Duration::from_secs(30));
        Ok(Self { config, authorities })
    }

    /// A pool of connections, none of them made yet.
    pub(super) fn pool(&self) -> Pool {
        let tls = MakeRustlsConnect::new(Arc::unwrap_or_clone(tls::client_config(self.authorities.as_deref())));
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(self.config.clone(), tls, recycling);
        Pool::builder(manager).max_size(POOL_SIZE).build().expect("no time-outs, so no runtime is needed")
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(***)")
    }
}

/// Brings the schema up to date; `false` while the database is away. Of servers that start together one does, and the others
/// wait; a schema that is newer than this version is left alone.
pub(super) async fn migrate(pool: &Pool) -> Result<bool, OpenError> {
    let migrations = MIGRATIONS.map(|(name, sql)| Migration::unapplied(name, sql));
    let migrations: Result<Vec<_>, _> = migrations.into_iter().collect();
    let migrations = migrations.map_err(|error| OpenError::Schema(error.to_string()))?;
    let connected = async {
        let object = match timeout(CONNECT_DEADLINE, pool.get()).await {
            Ok(Ok(object)) => object,
            Ok(Err(PoolError::Backend(error))) => return Err(error),
            Ok(Err(_)) | Err(_) => return Ok(None),
        };
        // It holds the lock, and ends with it.
        let client = Object::take(object);
        // A migration may take longer than a statement should.
        client.batch_execute("SET statement_timeout = 0; SET lock_timeout = 0").await?;
        while !client.query_one("SELECT pg_try_advisory_lock($1)", &[&MIGRATION_LOCK]).await?.get::<_, bool>(0) {
            sleep(LOCK_PAUSE).await;
        }
        Ok(Some(client))
    };
    let mut client = match connected.await {
        Ok(Some(client)) => client,
        Ok(None) => return Ok(false),
        Err(error) => return refused(&error).map_or(Ok(false), Err),
    };
    // Each migration in a transaction of its own.
    let runner = Runner::new(&migrations).set_abort_missing(true).set_abort_divergent(true);
    match runner.run_async(&mut *client).await {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            Kind::Connection(_, cause) => cause.downcast_ref().and_then(refused).map_or(Ok(false), Err),
            _ => Err(OpenError::Schema(error.to_string())),
        },
    }
}

/// What no waiting mends. A message of the database can hold data; its code cannot.
fn refused(error: &tokio_postgres::Error) -> Option<OpenError> {
    let code = error.code()?.code();
    // No such user or password (28), no such database (3D), no right (42).
    ["28", "3D", "42"].iter().any(|class| code.starts_with(class)).then(|| OpenError::Refused(code.to_owned()))
}
