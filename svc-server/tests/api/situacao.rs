//! C19, C22: what a partner can ask of its own proposals.

use serde_json::Value;

use crate::harness::{Receiver, Server, TYPICAL, proposal_to, read, within};

const WEBHOOK: &str = "https://parceiro.example.com/webhooks/svc";

#[tokio::test]
async fn a_proposal_is_found_by_both_ids_and_tells_its_avisos() {
    let server = Server::start().await;
    let (id, token) = (server.create(WEBHOOK).await, server.token().await);
    // The message is on its way a moment after the answer.
    let (status, by_id) = within(async {
        loop {
            let (status, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await;
            if body["mensagem"]["estado"] != "pendente" {
                return (status, body);
            }
        }
    })
    .await;
    assert_eq!(status, 200);
    assert_eq!(by_id["id_proposta_svc"], id);
    assert_eq!(by_id["id_proposta_parceiro"], "PARC-12345");
    assert_eq!(by_id["status"], "AGUARDANDO_RESPOSTA");
    assert_eq!(by_id["criada_em"], "2026-11-27T20:31:44.123Z");
    assert_eq!(by_id["mensagem"], serde_json::json!({"estado": "enviada"}));
    assert!(by_id.get("webhook").is_none() && by_id.get("respondida_em").is_none());
    let avisos: Vec<_> = by_id["avisos"].as_array().unwrap().iter().map(|aviso| aviso["propriedade"].clone()).collect();
    assert_eq!(
        avisos,
        ["/data_solicitacao", "/simulacao/taxas/nominal_am", "/simulacao/prazos/data_liberacao_estimada"]
    );
    let (status, by_partner) =
        read(server.get("/v1/propostas?id_proposta_parceiro=PARC-12345").bearer_auth(&token)).await;
    assert_eq!((status, by_partner), (200, by_id));
}

#[tokio::test]
async fn f22_another_partner_s_proposal_is_unknown() {
    let server = Server::start().await;
    let id = server.create(WEBHOOK).await;
    let other = server.token_of("outro", "outro-segredo").await;
    let mut bodies = Vec::new();
    for path in [
        format!("/v1/propostas/{id}"),
        format!("/v1/propostas/{}", id.to_uppercase()),
        "/v1/propostas/x".to_owned(),
        "/v1/propostas?id_proposta_parceiro=PARC-12345".to_owned(),
    ] {
        let (status, mut body) = read(server.get(&path).bearer_auth(&other)).await;
        assert_eq!((status, &body["codigo"]), (404, &"proposta_nao_encontrada".into()), "{path}");
        body.as_object_mut().unwrap().remove("id_requisicao");
        bodies.push(body);
        assert_eq!(read(server.get(&path)).await.1["codigo"], "token_ausente", "{path}");
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn a_query_without_the_partner_s_id_is_told_what_is_wrong() {
    let server = Server::start().await;
    let token = server.token().await;
    let long = "x".repeat(129);
    for (query, codigo) in [
        ("", "campo_obrigatorio"),
        ("?id_proposta_parceiro=", "campo_obrigatorio"),
        ("?id_proposta_parceiro=%00", "formato_invalido"),
        (&format!("?id_proposta_parceiro={long}"), "tamanho_excedido"),
        ("?id_proposta_parceiro=a&id_proposta_parceiro=a", "chave_duplicada"),
    ] {
        let (status, body) = read(server.get(&format!("/v1/propostas{query}")).bearer_auth(&token)).await;
        assert_eq!((status, &body["violacoes"][0]["codigo"]), (400, &codigo.into()), "{query}");
        assert_eq!(body["violacoes"][0]["propriedade"], "/id_proposta_parceiro");
    }
}

#[tokio::test]
async fn the_way_of_a_notification_is_told_attempt_by_attempt() {
    let server = Server::with(|config| config.schedule = svc_core::Schedule::parse("0,0").unwrap()).await;
    let mut receiver = Receiver::answering(["HTTP/1.1 500 Oops", "HTTP/1.1 204 No Content"]).await;
    let id = server.create(&receiver.url).await;
    read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await;
    receiver.next().await;
    receiver.next().await;
    let token = server.token().await;
    let path = format!("/v1/propostas/{id}");
    // The receiver knows of the second attempt a moment before it is recorded.
    let body = within(async {
        loop {
            let (_, body) = read(server.get(&path).bearer_auth(&token)).await;
            if body["webhook"]["estado"] == "entregue" {
                return body;
            }
        }
    })
    .await;
    assert_eq!((&body["status"], &body["respondida_em"]), (&"ACEITO".into(), &"2026-11-27T20:31:44.123Z".into()));
    assert_eq!(body["webhook"]["id"], format!("evt_{id}"));
    let attempts = body["webhook"]["tentativas"].as_array().unwrap();
    let results: Vec<&Value> = attempts.iter().map(|attempt| &attempt["resultado"]).collect();
    assert_eq!(results, ["500", "204"]);
    assert!(
        attempts.iter().all(|attempt| attempt["duracao_ms"].is_u64() && attempt["em"] == "2026-11-27T20:31:44.123Z")
    );
}

#[tokio::test]
async fn c24_a_partner_that_is_removed_is_refused_at_once_and_another_is_taken() {
    let mut shared = None;
    let server = Server::with(|config| shared = Some(config.partners.clone())).await;
    let token = server.token_of("outro", "outro-segredo").await;
    shared.unwrap().replace(svc_server::Partners::demonstration());
    let (status, body) = read(server.post_proposta(&token, TYPICAL)).await;
    assert_eq!((status, &body["codigo"]), (401, &"token_invalido".into()));
    assert_eq!(server.login("outro", "outro-segredo").await.0, 401);
    assert_eq!(server.login("parceiro-demo", "segredo-demo").await.0, 200);
}

#[tokio::test]
async fn with_simulate_some_numbers_answer_by_themselves() {
    let mut receiver = Receiver::answering(["HTTP/1.1 200 OK"]).await;
    let server = Server::with(|config| config.simulate = true).await;
    let token = server.token().await;
    let create = async |ending: &str| {
        let body = proposal_to(&receiver.url, ending).replace("5511900000018", &format!("551190000{ending}"));
        let (status, created) = read(server.post_proposta(&token, body)).await;
        assert_eq!(status, 200, "{created}");
        created["id_proposta_svc"].as_str().unwrap().to_owned()
    };
    let ids = [create("9904").await, create("9903").await, create("9902").await, create("9901").await];
    let mut events = std::collections::HashMap::new();
    for _ in 0..2 {
        let event: serde_json::Value = serde_json::from_slice(&receiver.next().await.body).unwrap();
        events.insert(event["id_proposta_svc"].as_str().unwrap().to_owned(), event["status"].clone());
    }
    assert_eq!((&events[&ids[2]], &events[&ids[3]]), (&"RECUSADO".into(), &"ACEITO".into()));
    for (id, mensagem) in [
        (&ids[0], serde_json::json!({"estado": "enviada"})),
        (&ids[1], serde_json::json!({"estado": "falhou", "motivo": "destinatario_inalcancavel"})),
    ] {
        let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await;
        assert_eq!((&body["status"], &body["mensagem"]), (&"AGUARDANDO_RESPOSTA".into(), &mensagem));
    }
    // Off by default, as everywhere else: a number is a number.
    assert!(!svc_server::Config::homologacao(svc_server::Partners::demonstration()).unwrap().simulate);
}
