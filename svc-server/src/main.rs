//! The program: reads settings, binds, and lets the library serve.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use svc_core::Perfil;
use svc_server::{DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, LogFormat, SETTINGS, Settings, run};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// EX_USAGE of sysexits.h: the settings are at fault.
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let flags = match command().try_get_matches() {
        Ok(flags) => flags,
        Err(error) => {
            // --help and --version are no faults, and come the same way.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let settings = match Settings::read(|var| flag(&flags, var).or_else(|| std::env::var(var).ok())) {
        Ok(settings) => settings,
        Err(error) => return usage(&error.to_string()),
    };
    log_to_stderr(settings.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(serve(settings)),
        Err(error) => usage(&format!("no runtime: {error}")),
    }
}

async fn serve(settings: Settings) -> ExitCode {
    let listener = match TcpListener::bind(settings.listen).await {
        Ok(listener) => listener,
        Err(error) => return usage(&format!("SVC_LISTEN: {} cannot be bound: {error}", settings.listen)),
    };
    let (Ok(terminate), Ok(interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return usage("signals cannot be listened for");
    };
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let address = listener.local_addr().unwrap_or(settings.listen);
    greet(&settings, &address.to_string());
    match run(listener, settings.config, either(terminate, interrupt)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => usage(&format!("SVC_LISTEN: {error}")),
    }
}

/// What to do next, for whoever started it by hand. A closed standard output is no reason to stop.
fn greet(settings: &Settings, address: &str) {
    let demonstration = settings.config.partners.get(DEMO_CLIENT_ID).is_some();
    let mut out = std::io::stdout().lock();
    let perfil = settings.config.policy.perfil();
    let _ = writeln!(out, "svc-server {} listens on http://{address} ({perfil})", env!("CARGO_PKG_VERSION"));
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

async fn either(mut one: tokio::signal::unix::Signal, mut other: tokio::signal::unix::Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

fn usage(line: &str) -> ExitCode {
    eprintln!("svc-server: {line}");
    ExitCode::from(EXIT_USAGE)
}

fn log_to_stderr(format: LogFormat) {
    // Dependencies' own words at lower levels may hold what no log of ours may (C39).
    let subscriber =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO).with_target(false);
    match format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
}

/// The flags, made from the table of settings.
fn command() -> Command {
    let variables = SETTINGS.iter().filter(|setting| setting.flag.is_none());
    let secrets: String = variables.map(|setting| format!("  {:<24} {}\n", setting.var, setting.help)).collect();
    let flags = SETTINGS.iter().filter_map(|setting| {
        let flag = setting.flag?;
        let help = format!("{} [env: {}]", setting.help, setting.var);
        Some(Arg::new(setting.var).long(flag).value_name(setting.value).help(help).action(ArgAction::Append))
    });
    Command::new("svc-server")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Loan Proposal Partner Service: reference server")
        .args(flags)
        .after_help(format!("Secrets, from the environment only:\n{secrets}\nWithout any of these: a test server with a demonstration partner."))
}

/// A flag's value; a repeated one is a list.
fn flag(flags: &ArgMatches, var: &'static str) -> Option<String> {
    let values: Vec<_> = flags.try_get_many::<String>(var).ok()??.map(String::as_str).collect();
    Some(values.join(","))
}
