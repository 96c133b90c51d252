//! The WhatsApp sender: each byte that matters, and each way to be refused.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::{Perfil, Policy};
use tokio::net::TcpListener;

use crate::canary;
use crate::graph::{Graph, TAKEN, TOKEN, after, create, error, taken};
use crate::harness::{Receiver, Server, TYPICAL, WALKTHROUGH, proposal_to, read, results, within};

#[tokio::test]
async fn a_message_is_the_template_with_six_figures_and_the_link() {
    let mut graph = Graph::answering(taken).await;
    let server = Server::with(|config| {
        graph.sender(config);
        config.policy = Policy::new(Perfil::Producao);
    })
    .await;
    let token = server.token().await;
    let id = create(&server, &token, TYPICAL.to_owned()).await;
    let (request, body) = graph.next().await;
    assert_eq!(request.head, "POST /v23.0/106540352242922/messages HTTP/1.1");
    assert_eq!(request.header("authorization"), format!("Bearer {TOKEN}"));
    assert_eq!(request.header("content-type"), "application/json");
    let suffix = body["template"]["components"][1]["parameters"][0]["text"].as_str().unwrap().to_owned();
    canary::forbid(suffix.split_once("?chave=").unwrap().1);
    let typical: Value = serde_json::from_str(TYPICAL).unwrap();
    let text = |text: &str| json!({"type": "text", "text": text});
    let figures = ["Beltrano", "Credora <Um>", "R$\u{a0}5.000,00", "12", "R$\u{a0}528,21", "57,48% a.a."];
    assert_eq!(
        body,
        json!({
            "messaging_product": "whatsapp",
            "recipient_type": "individual",
            "to": typical["cliente"]["whatsapp"],
            "type": "template",
            "template": {
                "name": "proposta_de_emprestimo",
                "language": {"code": "pt_BR"},
                "components": [
                    {"type": "body", "parameters": figures.map(text)},
                    {"type": "button", "sub_type": "url", "index": "0", "parameters": [text(&suffix)]},
                ],
            },
        })
    );
    // The customer's way in, and nobody else's.
    assert!(suffix.starts_with(&format!("{id}?chave=")));
    let page = server.get(&format!("/confirmar/{suffix}")).header("accept", "text/html").send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert_eq!(after(&server, &token, &id, "pendente").await, json!({"estado": "enviada"}));
}

#[tokio::test]
async fn what_is_missing_is_put_into_words() {
    let mut graph = Graph::answering(taken).await;
    let server = graph.server().await;
    let token = server.token().await;
    let bare = r#"{"id_proposta_parceiro":"P-2","data_solicitacao":"2026-11-27","simulacao":{},
        "cliente":{"nome":"Ana","cpf":"111.444.777-35","whatsapp":"5511900000018"},
        "webhook_url":"https://parceiro.example.com/"}"#;
    create(&server, &token, bare.to_owned()).await;
    let (_, body) = graph.next().await;
    let parameters = body["template"]["components"][0]["parameters"].as_array().unwrap().clone();
    let texts: Vec<_> = parameters.iter().map(|parameter| parameter["text"].as_str().unwrap()).collect();
    assert_eq!(texts[2..], ["não informado"; 4]);
}

#[tokio::test]
async fn each_class_of_refusal_is_what_the_partner_reads() {
    const AGAIN: (&str, &str) = ("pendente", "canal_indisponivel");
    const LIMIT: (&str, &str) = ("pendente", "limite_do_canal");
    const INVALID: (&str, &str) = ("falhou", "mensagem_invalida");
    let mut cases: Vec<(u16, Value, (&str, &str))> = Vec::new();
    let mut add = |status, codes: &[i64], said| cases.extend(codes.iter().map(|code| (status, json!(code), said)));
    add(400, &[1, 2, 131_000, 131_016, 131_057], AGAIN);
    add(400, &[4, 17, 32, 613, 80_007, 130_429, 131_056], LIMIT);
    add(400, &[131_049, 130_472], ("pendente", "limite_do_destinatario"));
    add(400, &[131_026], ("falhou", "destinatario_inalcancavel"));
    add(400, &[131_047], ("falhou", "conversa_encerrada"));
    add(400, &[131_050], ("falhou", "destinatario_nao_quer"));
    add(400, &[131_021], ("falhou", "destinatario_e_remetente"));
    add(400, &[131_030], ("falhou", "destinatario_nao_permitido"));
    add(400, &[100, 131_008, 131_009, 132_000, 132_005, 132_012], INVALID);
    add(400, &[999_999], ("falhou", "recusada_pelo_canal"));
    add(500, &[999_999], AGAIN);
    add(429, &[999_999], LIMIT);
    cases.push((400, json!("131026"), ("falhou", "destinatario_inalcancavel")));
    cases.push((404, Value::Null, AGAIN));
    cases.push((200, Value::Null, AGAIN));
    let script = cases.clone();
    // Each proposal asks for as many instalments as its case has a number.
    let graph = Graph::answering(move |body| {
        let case = body["template"]["components"][0]["parameters"][3]["text"].as_str().unwrap();
        let (status, code, _) = script[case.parse::<usize>().unwrap() - 1].clone();
        match code {
            Value::Null => Some((status, "<html>not Meta's</html>".to_owned())),
            code => error(status, code),
        }
    })
    .await;
    let server = graph.server().await;
    let token = server.token().await;
    for (number, (status, code, (estado, motivo))) in cases.iter().enumerate() {
        let body = TYPICAL.replace("\"total_parcelas\": 12", &format!("\"total_parcelas\": {}", number + 1));
        let body = body.replace("\"id_proposta_parceiro\": \"", &format!("\"id_proposta_parceiro\": \"{number}-"));
        assert_ne!(body, TYPICAL);
        let id = create(&server, &token, body).await;
        let said = after(&server, &token, &id, "pendente").await;
        assert_eq!(said, json!({"estado": estado, "motivo": motivo}), "{status} {code}");
    }
}

#[tokio::test]
async fn a_fault_of_the_account_pauses_the_sender_and_fails_no_message() {
    let mut servers = tokio::task::JoinSet::new();
    for code in [
        0, 3, 10, 190, 200, 299, 368, 131_005, 131_031, 131_042, 131_045, 131_048, 132_001, 132_007, 132_015, 132_016,
        33, 133_010,
    ] {
        servers.spawn(pauses(code));
    }
    servers.join_all().await;
}

/// An account with this fault, before and after it is mended.
async fn pauses(code: i64) {
    let mended = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let mut graph = Graph::answering(move |body| match is_mended.load(std::sync::atomic::Ordering::SeqCst) {
        true => taken(body),
        false => error(401, code),
    })
    .await;
    let metrics = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let scrape = format!("http://{}/metrics", metrics.local_addr().unwrap());
    let server = Server::with(|config| {
        graph.sender(config);
        config.metrics = Some(metrics);
    })
    .await;
    let paused = async |server: &Server| {
        let text = server.http.get(&scrape).send().await.unwrap().text().await.unwrap();
        text.contains("\nsvc_sender_paused 1\n")
    };
    assert!(!paused(&server).await);
    let token = server.token().await;
    let first = create(&server, &token, proposal_to("https://parceiro.example.com/", "P-1")).await;
    graph.next().await;
    let said = after(&server, &token, &first, "pendente").await;
    assert_eq!(said, json!({"estado": "pendente", "motivo": "configuracao_do_canal"}), "{code}");
    // What comes meanwhile costs no attempt.
    let second = create(&server, &token, proposal_to("https://parceiro.example.com/", "P-2")).await;
    server.clock.advance(55);
    // More than a worker waits between two looks.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert!(graph.requests.is_empty());
    assert!(paused(&server).await);
    mended.store(true, std::sync::atomic::Ordering::SeqCst);
    // With what jitter adds to the wait of the message itself.
    server.clock.advance(15);
    for id in [&first, &second] {
        within(async {
            loop {
                let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await;
                if body["mensagem"] == json!({"estado": "enviada"}) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
    assert!(!paused(&server).await);
}

#[tokio::test]
async fn a_proposal_posted_fifty_times_at_once_is_one_message() {
    let mut graph = Graph::answering(taken).await;
    let server = graph.server().await;
    let token = server.token().await;
    let mut posts = tokio::task::JoinSet::new();
    for _ in 0..50 {
        posts.spawn(read(server.post_proposta(&token, WALKTHROUGH)));
    }
    let ids: std::collections::HashSet<String> = posts
        .join_all()
        .await
        .into_iter()
        .map(|(status, body)| {
            assert_eq!(status, 200);
            body["id_proposta_svc"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(ids.len(), 1);
    graph.next().await;
    let id = ids.iter().next().unwrap();
    assert_eq!(after(&server, &token, id, "pendente").await, json!({"estado": "enviada"}));
    assert!(graph.requests.is_empty());
}

#[tokio::test]
async fn a_message_that_hangs_for_fifteen_seconds_holds_nothing_else_up() {
    let mut graph = Graph::answering(|body| {
        let hangs = body["to"] == "5511900000002";
        (!hangs).then(|| (200, TAKEN.to_owned()))
    })
    .await;
    let server = graph.server().await;
    let (token, mut receiver) = (server.token().await, Receiver::answering(["HTTP/1.1 200 OK"]).await);
    let to = |id: &str, number: &str| proposal_to(&receiver.url, id).replace("5511900000018", number);
    let hanging = create(&server, &token, to("P-1", "5511900000002")).await;
    graph.next().await;
    // Creation, page, answer, webhook and message of another go on.
    let other = create(&server, &token, to("P-2", "5511900000001")).await;
    assert_eq!(after(&server, &token, &other, "pendente").await, json!({"estado": "enviada"}));
    assert_eq!(read(server.get(&format!("/confirmar/{other}?acao=aceitar"))).await.0, 200);
    receiver.next().await;
    assert_eq!(results(&server.ended(&token, &other).await), ["200"]);
    let (_, body) = read(server.get(&format!("/v1/propostas/{hanging}")).bearer_auth(&token)).await;
    assert_eq!(body["mensagem"], json!({"estado": "pendente"}), "it still hangs");
    let said = after(&server, &token, &hanging, "pendente").await;
    assert_eq!(said, json!({"estado": "pendente", "motivo": "tempo_esgotado"}));
}
