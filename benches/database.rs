//! What the server makes of its database: creations and answers a second, beside `pgbench` with the same statements on the
//! same cluster in the same run; and what claiming due work costs among a million rows that have ended.
//!
//! `cargo build --release && cargo run --release -p svc-benches --bin database -- target/release/svc-server`
//!
//! The statements are taken from the server's source. `pgbench` runs those of a request alone, and then those that the
//! server makes for each proposal: the request's, and the reading and recording of its message or webhook. What the server
//! claims for many at once it is spared. The server also reads HTTP, checks tokens, validates, signs and delivers.

use std::process::Command;
use std::time::{Duration, Instant};

use svc_benches::{Http, receive, start};
use tokio::task::JoinSet;

#[path = "../svc-server/tests/api/cluster.rs"]
#[expect(dead_code, reason = "the tests do more to a cluster")]
mod cluster;

const CLIENTS: usize = 16;
const SECONDS: usize = 5;
const ROUNDS: usize = 3;
const STORE: &str = include_str!("../svc-server/src/store/postgres.rs");
const OUTBOX: &str = include_str!("../svc-server/src/store/postgres/outbox.rs");

/// The statement that begins so in the server's source, with expressions for its parameters.
fn statement(source: &str, begin: &str, table: &str, parameters: &[&str]) -> String {
    let at = source.find(begin).unwrap_or_else(|| panic!("no statement begins {begin}"));
    let text = source[at..].split('"').next().expect("a literal");
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace("{table}", table).replace("{}", table);
    for (i, parameter) in parameters.iter().enumerate().rev() {
        text = text.replace(&format!("${}", i + 1), parameter);
    }
    text
}

struct Scripts {
    create: String,
    create_and_tell: String,
    confirm: String,
    confirm_and_deliver: String,
}

fn scripts() -> Scripts {
    let id = "md5(:client_id || '-' || :n)::uuid";
    let (dados, task) = ("decode(repeat('61', 900), 'hex')", "decode(repeat('61', 420), 'hex')");
    let next = "\\set n :n + 1\n";
    let find = statement(STORE, "SELECT dados FROM propostas WHERE id = $1", "", &[id]);
    let insert = statement(
        STORE,
        "WITH new AS",
        "",
        &[
            id,
            "'parceiro-demo'",
            "'B-' || :client_id || '-' || :n",
            "1",
            "'AGUARDANDO_RESPOSTA'",
            "now()",
            dados,
            "''",
            "0",
            task,
        ],
    );
    let commit = statement(
        STORE,
        "WITH moved AS",
        "",
        &[id, "2", "'ACEITO'", "now()", dados, "'parceiro-demo'", "'127.0.0.1'", "0", task, id],
    );
    let record = |table| statement(OUTBOX, "UPDATE {} SET due", table, &[id, "fence", "NULL", task]);
    Scripts {
        create: format!("{next}{insert};\n"),
        create_and_tell: format!("{next}{insert};\n{find};\n{};\n", record("mensagens")),
        confirm: format!("{next}{find};\n{commit};\n"),
        confirm_and_deliver: format!("{next}{find};\n{commit};\n{};\n", record("webhooks")),
    }
}

/// Transactions a second of a script.
fn pgbench(database: &cluster::Database, script: &str, stop: &[&str]) -> f64 {
    let file = std::env::temp_dir().join(format!("svc-pgbench-{}.sql", std::process::id()));
    std::fs::write(&file, script).expect("written");
    let mut pgbench = Command::new(database.cluster.bin.join("pgbench"));
    pgbench.args(["-n", "-M", "prepared", "-D", "n=0", "-c", &CLIENTS.to_string(), "-f"]).arg(&file).args(stop);
    let output = pgbench.arg(database.url_text()).output().expect("pgbench runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")).expect("a rate");
    tps.split(' ').next().and_then(|tps| tps.parse().ok()).expect("a number")
}

/// Calls a second of clients that each make one after the other, until all that comes of them is done too.
async fn rate<F: Future<Output = usize> + Send + 'static>(clients: Vec<F>, done: impl Future<Output = ()>) -> f64 {
    let began = Instant::now();
    let mut running = JoinSet::new();
    for client in clients {
        running.spawn(client);
    }
    let calls: usize = running.join_all().await.into_iter().sum();
    done.await;
    calls as f64 / began.elapsed().as_secs_f64()
}

#[tokio::main]
async fn main() {
    let cluster = cluster::Cluster::own().expect("PostgreSQL on this machine");
    let folder = std::env::temp_dir().join(format!("svc-database-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut rows = Vec::new();
    for round in 0..ROUNDS {
        let database = cluster.database();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("written");
            path.to_str().expect("text").to_owned()
        };
        let arguments = [
            "--database-url-file",
            &file("url", &database.url_text()),
            "--token-key-file",
            &file("token", &"k".repeat(32)),
            "--link-key-file",
            &file("link", &"l".repeat(32)),
        ];
        let (_server, address) = start(&arguments).await;
        let (tell, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
        let url = format!("http://{}/webhook", receive(tell).await);
        tokio::spawn(async move { while arrivals.recv().await.is_some() {} });
        let token = Http::connect(&address).await.login("parceiro-demo", "segredo-demo").await;

        let mut clients = Vec::new();
        let (keep, mut kept) = tokio::sync::mpsc::unbounded_channel();
        for client in 0..CLIENTS {
            let (mut http, token, url, keep) =
                (Http::connect(&address).await, token.clone(), url.clone(), keep.clone());
            clients.push(async move {
                let (began, mut calls) = (Instant::now(), 0);
                while began.elapsed() < Duration::from_secs(SECONDS as u64) {
                    keep.send(http.create(&token, &format!("P-{client}-{calls}"), &url).await).expect("kept");
                    calls += 1;
                }
                calls
            });
        }
        let told = database.until("SELECT count(*) FROM mensagens WHERE due IS NOT NULL", "0");
        let created = rate(clients, told).await;
        drop(keep);
        let mut ids = vec![Vec::new(); CLIENTS];
        let mut count = 0;
        while let Some(id) = kept.recv().await {
            ids[count % CLIENTS].push(id);
            count += 1;
        }
        let mut clients = Vec::new();
        for ids in ids {
            let mut http = Http::connect(&address).await;
            clients.push(async move {
                for id in &ids {
                    http.accept(id).await;
                }
                ids.len()
            });
        }
        let delivered = database.until("SELECT count(*) FROM webhooks WHERE due IS NOT NULL", "0");
        let confirmed = rate(clients, delivered).await;
        drop(_server);

        // The same tables, as full as they are now. What one script makes, the next confirms.
        let (scripts, time) = (scripts(), ["-T", &SECONDS.to_string()]);
        let as_many = (count / CLIENTS / 2).to_string();
        let fresh = || database.sql("TRUNCATE propostas, mensagens, webhooks");
        let mut of_pgbench = Vec::new();
        for (first, second) in
            [(&scripts.create, &scripts.confirm), (&scripts.create_and_tell, &scripts.confirm_and_deliver)]
        {
            fresh();
            of_pgbench.push(pgbench(&database, first, &time));
            fresh();
            pgbench(&database, &scripts.create, &["-t", &as_many]);
            of_pgbench.push(pgbench(&database, second, &["-t", &as_many]));
        }
        println!("round {}: created {created:.0}/s, confirmed {confirmed:.0}/s; pgbench {of_pgbench:.0?}/s", round + 1);
        rows.push([created, confirmed, of_pgbench[0], of_pgbench[1], of_pgbench[2], of_pgbench[3]]);
    }
    let median = |of: &dyn Fn(&[f64; 6]) -> f64| {
        let mut values: Vec<_> = rows.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!("medians of {ROUNDS} rounds, {CLIENTS} clients:");
    for (name, server, alone, whole) in [("create", 0, 2, 4), ("confirm", 1, 3, 5)] {
        println!(
            "{name}: {:.0}/s; of pgbench with the same statements {:.2}, with the request's alone {:.2}",
            median(&|row| row[server]),
            median(&|row| row[server] / row[whole]),
            median(&|row| row[server] / row[alone]),
        );
    }
    claim(&cluster.database());
    std::fs::remove_dir_all(folder).expect("removed");
}

/// A million rows of which 99 % have ended: what it costs to find and lock the next of each of its ten hosts.
fn claim(database: &cluster::Database) {
    database.sql(include_str!("../svc-server/src/store/postgres/V1__first.sql"));
    database.sql(
        "INSERT INTO propostas SELECT gen_random_uuid(), 'p' || n % 100, n::text, 2, 'ACEITO', now(), now(), NULL, true,
            decode(repeat('61', 900), 'hex') FROM generate_series(1, 1000000) n",
    );
    database.sql(
        "INSERT INTO webhooks SELECT id, client_id, 'h' || id_proposta_parceiro::int % 1000 / 100,
            CASE WHEN random() < 0.01 THEN now() - random() * interval '1 h' END, NULL, NULL, 0,
            decode(repeat('61', 420), 'hex') FROM propostas",
    );
    database.sql("VACUUM ANALYZE webhooks");
    let partners = (0..100).map(|n| format!("p{n}")).collect::<Vec<_>>().join(",");
    // As many of each host as a server looks at.
    for (name, partners, share) in [("one partner", "p0", "8"), ("a hundred partners", &*partners, "6")] {
        let parameters = [format!("'{{{partners}}}'"), share.into(), "'{p0}'".into(), "'{h0}'".into()];
        let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
        let claim = statement(OUTBOX, "WITH RECURSIVE hosts", "webhooks", &parameters);
        let mut times: Vec<f64> = Vec::new();
        let mut plan = String::new();
        for _ in 0..11 {
            plan = database.sql(&format!("SET jit = off; EXPLAIN (ANALYZE, BUFFERS) {claim}"));
            let time = plan.lines().find_map(|line| line.strip_prefix("Execution Time: ")).expect("a time");
            times.push(time.trim_end_matches(" ms").parse().expect("a number"));
        }
        times.sort_by(f64::total_cmp);
        println!(
            "claiming for {name} among a million rows, 1 % due: median {:.2} ms of 11 ({times:?})\n{plan}",
            times[5]
        );
    }
}
