//! C19, W31, C35: what a partner can have sent again, and how the customer's message fares.

use svc_core::Schedule;
use tokio::sync::mpsc::unbounded_channel;

use crate::harness::{Receiver, Server, read, results, within};
use crate::network::{Network, Peer, pass};

const WEBHOOK: &str = "https://parceiro.example.com/webhooks/svc";

#[tokio::test]
async fn w31_a_schedule_used_up_is_falhou_and_a_resend_works_then_and_after_success() {
    let server = Server::with(|config| config.schedule = Schedule::parse("0,0").unwrap()).await;
    let script = ["HTTP/1.1 500 Oops", "HTTP/1.1 404 Not here", "HTTP/1.1 503 Away", "HTTP/1.1 200 OK"];
    let mut receiver = Receiver::answering(script).await;
    let token = server.token().await;
    let id = server.answered(&token, &receiver.url, "P-1").await;
    let failed = server.ended(&token, &id).await;
    assert_eq!((&failed["estado"], results(&failed)), (&"falhou".into(), vec!["500", "404"]));
    let path = format!("/v1/propostas/{id}/reenviar-webhook");
    for (estado, attempts) in
        [("entregue", vec!["500", "404", "503", "200"]), ("entregue", vec!["500", "404", "503", "200", "200"])]
    {
        let (status, body) = read(server.post(&path, &token)).await;
        assert_eq!((status, &body["webhook"]["estado"]), (202, &"pendente".into()));
        let webhook = server.ended(&token, &id).await;
        assert_eq!((&webhook["estado"], results(&webhook)), (&estado.into(), attempts));
        assert_eq!(webhook["id"], format!("evt_{id}"));
    }
    let first = receiver.next().await;
    for _ in 0..4 {
        let again = receiver.next().await;
        assert_eq!((again.header("webhook-id"), &again.body), (first.header("webhook-id"), &first.body));
        assert_eq!(again.header("x-svc-signature"), first.header("x-svc-signature"));
    }
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn c19_a_pending_webhook_s_next_attempt_is_now_and_there_are_never_two_at_once() {
    let mut network = Network::new(|address, before| match (address.port(), before) {
        (80, 0) => Peer::answers("HTTP/1.1 500 Oops\r\nconnection: close"),
        (80, _) => Peer::answers("HTTP/1.1 200 OK"),
        _ => Peer::Mute,
    })
    .name("parceiro.example", &["93.184.215.14"]);
    let server = Server::with(|config| {
        network.hold(config);
        config.schedule = Schedule::parse("0,24h").unwrap();
    })
    .await;
    let token = server.token().await;
    let id = server.answered(&token, "http://parceiro.example/", "P-1").await;
    network.next().await;
    within(async { while results(&server.webhook(&token, &id).await).is_empty() {} }).await;
    assert_eq!(read(server.post(&format!("/v1/propostas/{id}/reenviar-webhook"), &token)).await.0, 202);
    within(network.next()).await;
    let webhook = server.ended(&token, &id).await;
    assert_eq!((&webhook["estado"], results(&webhook)), (&"entregue".into(), vec!["500", "200"]));

    // One that hangs is the attempt that was asked for.
    let hanging = server.answered(&token, "http://parceiro.example:81/", "P-2").await;
    within(async {
        while network.connections().len() < 3 {
            tokio::task::yield_now().await
        }
    })
    .await;
    for _ in 0..3 {
        let (status, body) = read(server.post(&format!("/v1/propostas/{hanging}/reenviar-webhook"), &token)).await;
        assert_eq!((status, &body["webhook"]["estado"]), (202, &"pendente".into()));
    }
    pass(14).await;
    assert_eq!(network.connections().len(), 3);
    pass(2).await;
    assert_eq!(results(&server.webhook(&token, &hanging).await), ["tempo_esgotado"]);
    assert_eq!(network.connections().len(), 3, "and the schedule goes on");
}

#[tokio::test]
async fn c19_what_cannot_be_sent_again_says_so() {
    let mut server = Server::start().await;
    let (token, other) = (server.token().await, server.token_of("outro", "outro-segredo").await);
    let id = server.create(WEBHOOK).await;
    let first = within(server.next_link()).await;
    let [webhook, message] = ["webhook", "mensagem"].map(|what| format!("/v1/propostas/{id}/reenviar-{what}"));

    let (status, body) = read(server.post(&webhook, &token)).await;
    assert_eq!((status, &body["codigo"]), (409, &"proposta_sem_resposta".into()));
    let (status, body) = read(server.post(&message, &token)).await;
    assert_eq!(
        (status, &body["id_proposta_svc"], &body["status"]),
        (202, &id.as_str().into(), &"AGUARDANDO_RESPOSTA".into())
    );
    assert_eq!(within(server.next_link()).await, first, "the same link");

    for path in [&webhook, &message] {
        let unknown = path.replace(&id, "07070707-0707-4707-8707-070707070707");
        for (path, token) in [(path, &other), (&unknown, &token)] {
            let (status, body) = read(server.post(path, token)).await;
            assert_eq!((status, &body["codigo"]), (404, &"proposta_nao_encontrada".into()));
        }
        let (status, body) = read(server.http.post(format!("{}{path}", server.base))).await;
        assert_eq!((status, &body["codigo"]), (401, &"token_ausente".into()));
        let (status, body) = read(server.get(path).bearer_auth(&token)).await;
        assert_eq!((status, &body["codigo"]), (405, &"metodo_nao_permitido".into()));
        let form = server.post(path, &token).header("content-type", "text/plain").body("x");
        assert_eq!(read(form).await.0, 415);
    }

    read(server.get(&format!("/confirmar/{id}?acao=recusar"))).await;
    let (status, body) = read(server.post(&message, &token)).await;
    assert_eq!((status, &body["codigo"]), (409, &"proposta_ja_respondida".into()));
    assert_eq!(body["status_proposta"], "RECUSADO");
    assert_eq!(read(server.post(&webhook, &token)).await.0, 202);
    assert!(server.links.is_empty());
}

#[tokio::test]
async fn c35_a_message_that_fails_is_tried_again_and_never_fails_the_creation() {
    let (sender, links) = unbounded_channel();
    drop(links);
    let server = Server::with(|config| config.sender = svc_server::Sender::Channel(sender)).await;
    let (id, token) = (server.create(WEBHOOK).await, server.token().await);
    let path = format!("/v1/propostas/{id}");
    let message = async |estado: &str| {
        within(async {
            loop {
                let (_, body) = read(server.get(&path).bearer_auth(&token)).await;
                if body["mensagem"]["estado"] == estado && body["mensagem"].get("motivo").is_some() {
                    return body["mensagem"]["motivo"].clone();
                }
            }
        })
        .await
    };
    assert_eq!(message("pendente").await, "nao_enviada");
    // Answered otherwise before it could be told: the next attempt finds that there is nothing left to tell.
    assert_eq!(read(server.get(&format!("/confirmar/{id}?acao=aceitar"))).await.0, 200);
    server.clock.advance(6);
    assert_eq!(message("falhou").await, "proposta_ja_respondida");
}

#[tokio::test]
async fn c35_a_message_is_given_up_after_its_eighth_attempt_and_can_be_asked_for_again() {
    let (sender, links) = unbounded_channel();
    drop(links);
    let network = Network::new(|_, _| Peer::Mute);
    let server = Server::with(|config| {
        network.hold(config);
        config.sender = svc_server::Sender::Channel(sender);
    })
    .await;
    let id = server.create(WEBHOOK).await;
    pass(40 * 3_600).await;
    let token = server.token().await;
    let path = format!("/v1/propostas/{id}");
    let (_, body) = read(server.get(&path).bearer_auth(&token)).await;
    assert_eq!(body["mensagem"], serde_json::json!({"estado": "falhou", "motivo": "nao_enviada"}));
    let (status, body) = read(server.post(&format!("{path}/reenviar-mensagem"), &token)).await;
    assert_eq!((status, &body["mensagem"]), (202, &serde_json::json!({"estado": "pendente"})));
}
