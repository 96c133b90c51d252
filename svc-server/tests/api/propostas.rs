//! C1–C10, C36 over HTTP: a proposal is stored once, or refused with everything that is wrong with it.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Server, TYPICAL, WALKTHROUGH, read, within};

/// Name, bytes and the index's row of each file in a folder of svc-core's test data.
fn files(folder: &str) -> Vec<(String, Vec<u8>, Vec<String>)> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../svc-core/tests/proposals");
    let index = fs::read_to_string(data.join("INDEX.md")).unwrap();
    let rows = index.lines().filter(|line| line.contains(".json |"));
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    let mut files = Vec::new();
    for entry in fs::read_dir(data.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let row =
            rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name} is not in the index")).clone();
        files.push((name, fs::read(entry.path()).unwrap(), row));
    }
    files
}

#[tokio::test]
async fn every_file_of_the_index_gets_its_status_pointer_and_code_in_both_profiles() {
    for (server, perfil) in [(Server::start().await, "homologacao"), (Server::producao().await, "producao")] {
        let token = server.token().await;
        for (name, body, row) in files("valid") {
            let (status, body) = read(server.post_proposta(&token, body)).await;
            let accepted = row[1] == "both" || perfil == "homologacao";
            assert_eq!(status, if accepted { 200 } else { 400 }, "{name} in {perfil}: {body}");
        }
        for (name, body, row) in files("invalid") {
            let (status, answer) = read(server.post_proposta(&token, body)).await;
            if row[4] == "producao" && perfil == "homologacao" {
                assert_eq!(status, 200, "{name} in {perfil}: {answer}");
                continue;
            }
            assert_eq!((status, &answer["codigo"]), (400, &"requisicao_invalida".into()), "{name} in {perfil}");
            let violacoes = answer["violacoes"].as_array().unwrap();
            let pointer = if row[1] == "(raiz)" { "" } else { &row[1] };
            assert_eq!(violacoes.len(), 1, "{name} in {perfil}: {answer}");
            assert_eq!(
                (&violacoes[0]["propriedade"], &violacoes[0]["codigo"]),
                (&pointer.into(), &row[2].as_str().into()),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn the_same_proposal_again_is_the_first_one_and_tells_nobody_twice() {
    let mut server = Server::start().await;
    let token = server.token().await;
    let id = server.create("https://parceiro.example.com/webhooks/svc").await;
    let other_notation = WALKTHROUGH.replace("2000.0", "2e3").replace('\n', "");
    let again = server.post_proposta(&token, other_notation).send().await.unwrap();
    assert_eq!((again.status().as_u16(), &again.headers()["x-svc-replayed"]), (200, &"true".parse().unwrap()));
    let body: Value = serde_json::from_slice(&again.bytes().await.unwrap()).unwrap();
    assert_eq!(body["id_proposta_svc"], id);
    assert_eq!(within(server.next_link()).await, format!("{}/confirmar/{id}", server.base));
    assert!(server.links.is_empty(), "one message");
}

#[tokio::test]
async fn f73_f74_the_partner_s_id_is_one_proposal_and_each_partner_s_own() {
    let server = Server::start().await;
    let id = server.create("https://parceiro.example.com/webhooks/svc").await;
    let changed = WALKTHROUGH.replace("João", "Joana");
    let (status, body) = read(server.post_proposta(&server.token().await, changed.clone())).await;
    assert_eq!((status, &body["codigo"]), (409, &"id_proposta_parceiro_em_uso".into()));
    let (status, body) = read(server.post_proposta(&server.token_of("outro", "outro-segredo").await, changed)).await;
    assert_eq!(status, 200);
    assert_ne!(body["id_proposta_svc"], id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f72_one_proposal_sent_by_fifty_at_once_is_stored_once() {
    let mut server = Server::start().await;
    let token = server.token().await;
    let calls: Vec<_> = (0..50).map(|_| tokio::spawn(read(server.post_proposta(&token, TYPICAL)))).collect();
    let mut ids = Vec::new();
    for call in calls {
        let (status, body) = call.await.unwrap();
        assert_eq!(status, 200);
        ids.push(body["id_proposta_svc"].clone());
    }
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
    within(server.next_link()).await;
    assert!(server.links.is_empty(), "one message");
}

#[tokio::test]
async fn a_full_store_says_so_and_keeps_what_it_has() {
    let server = Server::with(|config| config.max_proposals = 1).await;
    let id = server.create("https://parceiro.example.com/webhooks/svc").await;
    let answer = server.post_proposta(&server.token().await, TYPICAL).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (503, &"60".parse().unwrap()));
    assert_eq!(server.create("https://parceiro.example.com/webhooks/svc").await, id, "a replay needs no room");
}
