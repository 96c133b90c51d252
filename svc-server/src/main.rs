//! The program: reads settings, binds, and lets the library serve.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use chrono::{SecondsFormat, Utc};
use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use svc_core::Perfil;
use svc_server::{
    DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, Lines, LogFormat, NewPartner, Partners, Random, SETTINGS, Settings,
    SharedPartners, run,
};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// A million proposals of many small parts take a quarter less memory than with the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// EX_USAGE of sysexits.h: the settings are at fault.
const EXIT_USAGE: u8 = 64;
/// What a shell shows of a program that was interrupted.
const EXIT_FORCED: i32 = 130;

fn main() -> ExitCode {
    let flags = match command().try_get_matches() {
        Ok(flags) => flags,
        Err(error) => {
            // --help and --version are no faults, and come the same way.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    if let Some(client_id) = new_partner(&flags) {
        return print_new_partner(client_id);
    }
    let settings = match Settings::read(|var| flag(&flags, var).or_else(|| std::env::var_os(var))) {
        Ok(settings) => settings,
        Err(error) => return usage(&error.to_string()),
    };
    let log = log_to_stderr(settings.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            let exit = runtime.block_on(serve(settings));
            log.flush();
            // A look-up of the system's resolver cannot be called back, and is not waited for.
            runtime.shutdown_background();
            exit
        }
        Err(error) => usage(&format!("no runtime: {error}")),
    }
}

async fn serve(mut settings: Settings) -> ExitCode {
    let listener = match bind("SVC_LISTEN", settings.listen).await {
        Ok(listener) => listener,
        Err(exit) => return exit,
    };
    if let Some(address) = settings.metrics_listen {
        settings.config.metrics = match bind("SVC_METRICS_LISTEN", address).await {
            Ok(listener) => Some(listener),
            Err(exit) => return exit,
        };
    }
    let (Ok(terminate), Ok(interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return usage("signals cannot be listened for");
    };
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    raise_descriptor_limit(settings.config.max_connections);
    match signal(SignalKind::hangup()) {
        Ok(hangups) => {
            drop(tokio::spawn(reload(settings.partners_file.clone(), settings.config.partners.clone(), hangups)));
        }
        Err(error) => return usage(&format!("SIGHUP cannot be listened for: {error}")),
    }
    let address = listener.local_addr().unwrap_or(settings.listen);
    greet(&settings, &address.to_string());
    match run(listener, settings.config, asked_to_stop(terminate, interrupt)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("svc-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn bind(var: &str, address: SocketAddr) -> Result<TcpListener, ExitCode> {
    TcpListener::bind(address).await.map_err(|error| usage(&format!("{var}: {address} cannot be bound: {error}")))
}

/// What to do next, for whoever started it by hand. A closed standard output is no reason to stop.
fn greet(settings: &Settings, address: &str) {
    let demonstration = settings.config.partners.current().get(DEMO_CLIENT_ID).is_some();
    let mut out = std::io::stdout().lock();
    let perfil = settings.config.policy.perfil();
    let _ = writeln!(out, "svc-server {} listens on http://{address} ({perfil})", env!("CARGO_PKG_VERSION"));
    if let Some(address) = settings.config.metrics.as_ref().and_then(|metrics| metrics.local_addr().ok()) {
        let _ = writeln!(out, "metrics on http://{address}/metrics");
    }
    if demonstration && perfil == Perfil::Homologacao {
        let _ = writeln!(
            out,
            "
Next, in another terminal, log in as the demonstration partner:

  curl http://{address}/v1/login -H 'content-type: application/json' \\
    -d '{{\"client_id\":\"{DEMO_CLIENT_ID}\",\"client_secret\":\"{DEMO_CLIENT_SECRET}\"}}'

The README goes on from there: a proposal, the customer's answer, the signed webhook. Ctrl-C ends the server.
"
        );
    }
}

/// Completes at the first signal; a second one ends the process where it is. What was acknowledged is stored by then.
async fn asked_to_stop(mut terminate: Signal, mut interrupt: Signal) {
    either(&mut terminate, &mut interrupt).await;
    tracing::info!("stopping: no new connections; a second signal ends at once");
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        std::process::exit(EXIT_FORCED);
    });
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

/// Reads the partners again at each SIGHUP; a bad file leaves things as they are (C24).
async fn reload(file: Option<PathBuf>, partners: SharedPartners, mut hangups: Signal) {
    while hangups.recv().await.is_some() {
        let Some(path) = file.clone() else {
            tracing::warn!("no partners file to read again");
            continue;
        };
        let read = tokio::task::spawn_blocking(move || Partners::from_file(&path)).await;
        match read.expect("reading a file does not panic") {
            Ok(new) => {
                partners.replace(new);
                tracing::info!("partners read again");
            }
            Err(error) => tracing::error!(%error, "partners not read again; the old ones stay"),
        }
    }
}

/// Each connection needs a descriptor, and the rest of the process a few.
fn raise_descriptor_limit(max_connections: usize) {
    // 256 attempts, as many connections kept for the next, names, logs, the database, those who read the metrics.
    const RESERVE: u64 = 1_024;
    let needed = RESERVE + u64::try_from(max_connections).unwrap_or(u64::MAX - RESERVE);
    let allowed = rlimit::increase_nofile_limit(needed).unwrap_or(0);
    if allowed < needed {
        tracing::warn!(allowed, needed, "fewer open files allowed than --max-connections needs");
    }
}

/// The client of `partner new CLIENT_ID`, if that was asked for.
fn new_partner(flags: &ArgMatches) -> Option<&str> {
    let new = flags.subcommand_matches("partner")?.subcommand_matches("new")?;
    new.get_one::<String>("CLIENT_ID").map(String::as_str)
}

/// The entry goes to standard output, to be put into a file; the secret beside it, to be seen once.
fn print_new_partner(client_id: &str) -> ExitCode {
    if client_id.trim().is_empty() || client_id.chars().any(char::is_control) {
        return usage("CLIENT_ID is blank or has control characters");
    }
    match NewPartner::draw(client_id, &Random::system()) {
        Ok(new) => {
            println!("{}", new.entry);
            eprintln!("client_secret, shown this once: {}", *new.client_secret);
            ExitCode::SUCCESS
        }
        Err(error) => usage(&error.to_string()),
    }
}

fn usage(line: &str) -> ExitCode {
    eprintln!("svc-server: {line}");
    ExitCode::from(EXIT_USAGE)
}

fn log_to_stderr(format: LogFormat) -> Lines {
    let lines = Lines::to(std::io::stderr());
    let writer = LogWriter(lines.clone());
    // Dependencies' own words at lower levels may hold what no log of ours may (C39).
    let subscriber = tracing_subscriber::fmt()
        .with_timer(Timestamp)
        .with_writer(move || writer.clone())
        .with_max_level(tracing::Level::INFO)
        .with_target(false);
    match format {
        LogFormat::Text => subscriber.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
    lines
}

/// RFC 3339 in UTC, as by default, without the formatter's detours: a line is written for each request.
struct Timestamp;

impl FormatTime for Timestamp {
    fn format_time(&self, line: &mut Writer<'_>) -> std::fmt::Result {
        line.write_str(&Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

/// The log's way to standard error, which must hold up no request. Lines that find no room are lost.
#[derive(Clone)]
struct LogWriter(Lines);

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The flags, made from the table of settings.
fn command() -> Command {
    let variables = SETTINGS.iter().filter(|setting| setting.flag.is_none());
    let secrets: String = variables.map(|setting| format!("  {:<25} {}\n", setting.var, setting.help)).collect();
    let flags = SETTINGS.iter().filter_map(|setting| {
        let flag = setting.flag?;
        let help = format!("{} [env: {}]", setting.help, setting.var);
        let arg = Arg::new(setting.var).long(flag).value_name(setting.value).help(help).action(ArgAction::Append);
        let arg = arg.value_parser(NonEmptyStringValueParser::new());
        // A switch needs no value.
        Some(if setting.value == "on" {
            arg.num_args(0..=1).require_equals(true).default_missing_value("on")
        } else {
            arg
        })
    });
    let new = Command::new("new")
        .about("Prints the entry of a new partner for the partners file, and once its client secret")
        .arg(Arg::new("CLIENT_ID").required(true));
    let partner = Command::new("partner").about("Makes partners").subcommand(new).subcommand_required(true);
    Command::new("svc-server")
        .subcommand(partner)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Loan Proposal Partner Service: reference server")
        .args(flags)
        .after_help(format!("Secrets, from the environment only:\n{secrets}\nWithout any of these: a test server with a demonstration partner."))
}

/// A flag's value; a repeated one is a list.
fn flag(flags: &ArgMatches, var: &'static str) -> Option<OsString> {
    let values: Vec<_> = flags.try_get_many::<String>(var).ok()??.map(String::as_str).collect();
    Some(values.join(",").into())
}
