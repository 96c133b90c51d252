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
const CLAIMS: usize = 11;
const PROPOSTAS: &str = include_str!("../svc-server/src/store/postgres/propostas.rs");
const OUTBOX: &str = include_str!("../svc-server/src/store/postgres/outbox.rs");

/// The statement that begins so in the server's source, with expressions for its parameters.
fn statement(source: &str, begin: &str, table: &str, parameters: &[&str]) -> String {
    let at = source.find(begin).unwrap_or_else(|| panic!("no statement begins {begin}"));
    let text = source[at..].split('"').next().expect("a literal");
    let mut text =
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace("{table}", table).replace("{envio}", "");
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
    let one = |value: &str| format!("ARRAY[{value}]");
    let statement = |source, begin, table, values: &[&str]| {
        let values: Vec<String> = values.iter().map(|value| one(value)).collect();
        statement(source, begin, table, &values.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let id = "md5(:client_id || '-' || :n)::uuid";
    let (dados, task) = ("decode(repeat('61', 900), 'hex')", "decode(repeat('61', 420), 'hex')");
    let next = "\\set n :n + 1\n";
    let find = statement(PROPOSTAS, "SELECT id, dados FROM propostas WHERE id = ANY", "", &[id]);
    let insert = statement(
        PROPOSTAS,
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
    let commit =
        statement(PROPOSTAS, "WITH moved AS", "", &[id, "2", "'ACEITO'", "now()", dados, id, "'127.0.0.1'", "0", task]);
    let record = |table| statement(OUTBOX, "UPDATE {table} t SET due", table, &[id, "0", "NULL", task, "NULL"]);
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

/// Until a table has nothing that is due. Looked for seldom and cheaply, for the look has a share of the two cores too.
async fn nothing_waits(database: &cluster::Database, table: &str) {
    let waits = format!("SELECT EXISTS (SELECT FROM {table} WHERE due IS NOT NULL)");
    while database.sql(&waits) != "f" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
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
        // A hundred partners may log in, and one does.
        let random = svc_server::Random::system();
        let partners: Vec<_> = (0..100)
            .map(|n| svc_server::NewPartner::draw(&format!("parceiro-{n}"), &random).expect("random numbers"))
            .collect();
        let entries: Vec<_> = partners.iter().map(|partner| partner.entry.as_str()).collect();
        let arguments = [
            "--partners",
            &file("partners", &format!("[{}]", entries.join(","))),
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
        let token = Http::connect(&address).await.login("parceiro-0", &partners[0].client_secret).await;

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
        let told = nothing_waits(&database, "mensagens");
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
        let delivered = nothing_waits(&database, "webhooks");
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
            let did = |what: &str| assert_eq!(database.sql(what), "t", "a script that changes nothing is no measure");
            fresh();
            of_pgbench.push(pgbench(&database, first, &time));
            did("SELECT count(*) > 0 FROM mensagens");
            if first.contains("UPDATE mensagens") {
                did("SELECT bool_and(due IS NULL) FROM mensagens");
            }
            fresh();
            pgbench(&database, &scripts.create, &["-t", &as_many]);
            of_pgbench.push(pgbench(&database, second, &["-t", &as_many]));
            did("SELECT count(*) > 0 AND bool_and(status = 'ACEITO') FROM propostas");
            if second.contains("UPDATE webhooks") {
                did("SELECT bool_and(due IS NULL) FROM webhooks");
            }
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

/// A million rows of which 99 % have ended: what it costs a server with nothing under way to see what is due, and to take it.
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
    let all = (0..100).map(|n| format!("p{n}")).collect::<Vec<_>>().join(",");
    for (name, partners, taken) in [("one partner", "p0", 64), ("a hundred partners", &*all, 256)] {
        let after = vec!["NULL"; partners.split(',').count()].join(",");
        let lists = [partners, &after, "p0", "h0"].map(|list| format!("'{{{list}}}'"));
        let [partners, after, full_partners, full_hosts] = lists.each_ref().map(String::as_str);
        // With all places free, eight of them at a host.
        let values = [partners, after, full_partners, full_hosts, "256", "8", "2000"];
        let look = statement(OUTBOX, "WITH RECURSIVE hosts", "webhooks", &values);
        let due = format!("ARRAY(SELECT id FROM ({look}) AS due WHERE id IS NOT NULL LIMIT {taken})");
        let take = statement(OUTBOX, "UPDATE {table} SET fence = fence + 1", "webhooks", &[&due, "25000000"]);
        for (verb, statement) in [("seeing", look), ("seeing and taking", take)] {
            // In one session, as a server makes it, and each time as if it were the first.
            let once = format!("BEGIN; EXPLAIN (ANALYZE, BUFFERS) {statement}; ROLLBACK;");
            let plans = database.sql(&format!("SET jit = off; SET enable_seqscan = off; {}", once.repeat(CLAIMS)));
            let times = plans.lines().filter_map(|line| line.strip_prefix("Execution Time: "));
            let mut times: Vec<f64> =
                times.map(|time| time.trim_end_matches(" ms").parse().expect("a number")).collect();
            assert_eq!(times.len(), CLAIMS, "{plans}");
            times.sort_by(f64::total_cmp);
            println!("{verb} for {name}: median {:.2} ms of {CLAIMS} ({times:?})", times[CLAIMS / 2]);
            if (verb, name) == ("seeing", "one partner") {
                let plan = plans.rfind("\nAppend  (").expect("a plan");
                println!("{}", &plans[plan..]);
            }
        }
    }
}
