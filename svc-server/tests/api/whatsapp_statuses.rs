//! What WhatsApp tells of messages, signed and not.

use serde_json::{Value, json};
use svc_server::{Config, ServerKey, WhatsAppWebhook};

use crate::graph::{Graph, TAKEN, after, create, taken};
use crate::harness::{Server, WALKTHROUGH, proposal_to, read};

const APP_SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Meta's envelope of one status, signed with the app's secret.
async fn told(server: &Server, status: Value) -> u16 {
    let envelope = json!({"object": "whatsapp_business_account", "entry": [{"id": "0", "changes": [
        {"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": {}, "statuses": [status]}}]}]});
    post_signed(server, envelope.to_string(), APP_SECRET).await
}

async fn post_signed(server: &Server, body: String, secret: &str) -> u16 {
    use hmac::{KeyInit, Mac};
    let mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&body).finalize();
    let hex: String = mac.into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let request = server.http.post(format!("{}/whatsapp/webhook", server.base)).body(body);
    read(request.header("x-hub-signature-256", format!("sha256={hex}"))).await.0
}

fn webhook(config: &mut Config) {
    let secret = ServerKey::new(APP_SECRET.as_bytes().to_vec()).unwrap();
    config.whatsapp_webhook = Some(WhatsAppWebhook::new(secret, "combinado"));
}

#[tokio::test]
async fn c22_what_whatsapp_tells_of_a_message_is_what_the_partner_reads() {
    let ids = std::sync::atomic::AtomicU32::new(0);
    let mut graph = Graph::answering(move |_| {
        let id = ids.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Some((200, TAKEN.replace("HBgNNTUxMQ==", &id.to_string())))
    })
    .await;
    let server = Server::with(|config| {
        graph.sender(config);
        webhook(config);
    })
    .await;
    let token = server.token().await;
    let status =
        |id: u32, status: &str| json!({"id": format!("wamid.{id}"), "status": status, "timestamp": "1", "novo": 1});
    let failed = |id: u32, code: Value| json!({"id": format!("wamid.{id}"), "status": "failed", "errors": [{"code": code, "title": "x"}]});
    for (number, news, said) in [
        (0, vec![status(0, "sent")], json!({"estado": "enviada"})),
        (1, vec![status(1, "sent"), status(1, "delivered")], json!({"estado": "entregue"})),
        (2, vec![status(2, "read"), status(2, "delivered"), status(2, "sent")], json!({"estado": "lida"})),
        (
            3,
            vec![failed(3, json!(131_026)), status(9, "read")],
            json!({"estado": "falhou", "motivo": "destinatario_inalcancavel"}),
        ),
        (4, vec![failed(4, json!("131049"))], json!({"estado": "pendente", "motivo": "limite_do_destinatario"})),
        (5, vec![failed(5, json!(131_026)), status(5, "delivered")], json!({"estado": "entregue"})),
        (6, vec![json!({"id": 7, "status": []}), status(6, "deleted")], json!({"estado": "enviada"})),
    ] {
        let id = create(&server, &token, proposal_to("https://parceiro.example.com/", &format!("P-{number}"))).await;
        graph.next().await;
        assert_eq!(after(&server, &token, &id, "pendente").await, json!({"estado": "enviada"}));
        for status in news {
            assert_eq!(told(&server, status).await, 200);
        }
        let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await;
        assert_eq!(body["mensagem"], said, "{number}");
    }
}

#[tokio::test]
async fn what_whatsapp_did_not_sign_changes_nothing_and_what_is_not_understood_is_taken() {
    let mut graph = Graph::answering(taken).await;
    let server = Server::with(|config| {
        graph.sender(config);
        webhook(config);
    })
    .await;
    let token = server.token().await;
    let id = create(&server, &token, WALKTHROUGH.to_owned()).await;
    graph.next().await;
    after(&server, &token, &id, "pendente").await;
    let read_it = json!({"entry": [{"changes": [{"value": {"statuses": [
        {"id": "wamid.HBgNNTUxMQ==", "status": "read"}]}}]}]})
    .to_string();
    let post = |body: &str| server.http.post(format!("{}/whatsapp/webhook", server.base)).body(body.to_owned());
    assert_eq!(read(post(&read_it)).await.0, 401);
    for signature in ["", "sha256=", "sha256=00", "sha1=00", &format!("sha256={}", "0".repeat(64)), "sha256=é"] {
        assert_eq!(read(post(&read_it).header("x-hub-signature-256", signature)).await.0, 401, "{signature}");
    }
    assert_eq!(post_signed(&server, read_it.clone(), "outro-segredo").await, 401);
    let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await;
    assert_eq!(body["mensagem"], json!({"estado": "enviada"}));
    // Beside what is odd the others count.
    for body in [
        "",
        "{",
        "{\"entry\":[{\"changes\":null},{\"changes\":[{\"value\":[]},{\"value\":{\"statuses\":null}}]}]}",
        "[]",
        "{\"entry\":[{}]}",
        "{\"entry\":[{\"changes\":[{\"value\":{}}]}]}",
    ] {
        assert_eq!(post_signed(&server, body.to_owned(), APP_SECRET).await, 200, "{body}");
    }
    assert_eq!(post_signed(&server, read_it, APP_SECRET).await, 200);
    let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await;
    assert_eq!(body["mensagem"], json!({"estado": "lida"}));
}

#[tokio::test]
async fn a_subscription_is_confirmed_to_whoever_knows_its_token_and_is_off_by_default() {
    let server = Server::with(webhook).await;
    let ask = async |query: &str| {
        let answer = server.get(&format!("/whatsapp/webhook?{query}")).send().await.unwrap();
        (answer.status().as_u16(), answer.headers().get("content-type").cloned(), answer.text().await.unwrap())
    };
    let (status, kind, text) = ask("hub.mode=subscribe&hub.verify_token=combinado&hub.challenge=1158201444").await;
    assert_eq!((status, kind.unwrap().to_str().unwrap(), &*text), (200, "text/plain; charset=utf-8", "1158201444"));
    for query in [
        "",
        "hub.mode=subscribe&hub.verify_token=outro&hub.challenge=1",
        "hub.mode=subscribe&hub.challenge=1",
        "hub.mode=unsubscribe&hub.verify_token=combinado&hub.challenge=1",
        "hub.mode=subscribe&hub.verify_token=combinado",
        "hub.mode=subscribe&hub.verify_token=combinado&hub.verify_token=combinado&hub.challenge=1",
    ] {
        assert_eq!(ask(query).await.0, 401, "{query}");
    }
    let off = Server::start().await;
    assert_eq!(read(off.get("/whatsapp/webhook?hub.mode=subscribe")).await.0, 404);
    assert_eq!(post_signed(&off, "{}".to_owned(), APP_SECRET).await, 404);
}

#[tokio::test]
async fn many_news_in_one_request_count_beside_odd_ones_and_a_fault_of_the_account_pauses() {
    let mut graph = Graph::answering(taken).await;
    let metrics = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let scrape = format!("http://{}/metrics", metrics.local_addr().unwrap());
    let server = Server::with(|config| {
        graph.sender(config);
        webhook(config);
        config.metrics = Some(metrics);
    })
    .await;
    let token = server.token().await;
    let id = create(&server, &token, WALKTHROUGH.to_owned()).await;
    graph.next().await;
    after(&server, &token, &id, "pendente").await;
    let of = |status: Value| {
        json!({"entry": [{"changes": [{"value": {"statuses": [
        null, {"id": "a\u{0}b", "status": "read"}, {"id": "x".repeat(600), "status": "read"}, 1, status]}}]}, null]})
    };
    let ours = |status: &str| json!({"id": "wamid.HBgNNTUxMQ==", "status": status, "errors": [{"code": 131_042}]});
    assert_eq!(post_signed(&server, of(ours("failed")).to_string(), APP_SECRET).await, 200);
    let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await;
    assert_eq!(body["mensagem"], json!({"estado": "pendente", "motivo": "configuracao_do_canal"}));
    let text = server.http.get(&scrape).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("\nsvc_sender_paused 1\n"), "billing stops all messages");
    assert_eq!(post_signed(&server, of(ours("delivered")).to_string(), APP_SECRET).await, 200);
    let (_, body) = read(server.get(&format!("/v1/propostas/{id}")).bearer_auth(&token)).await;
    assert_eq!(body["mensagem"], json!({"estado": "entregue"}));
    // More than one request may have.
    let much = server.http.post(format!("{}/whatsapp/webhook", server.base)).body("x".repeat(3 * 1024 * 1024 + 1));
    assert_eq!(read(much.header("x-hub-signature-256", format!("sha256={}", "0".repeat(64)))).await.0, 413);
}

#[tokio::test]
async fn news_while_the_message_is_being_sent_again_are_asked_for_again() {
    let mut graph = Graph::answering({
        let first = std::sync::atomic::AtomicBool::new(true);
        move |_| first.swap(false, std::sync::atomic::Ordering::SeqCst).then(|| (200, TAKEN.to_owned()))
    })
    .await;
    let server = Server::with(|config| {
        graph.sender(config);
        webhook(config);
    })
    .await;
    let token = server.token().await;
    let id = create(&server, &token, WALKTHROUGH.to_owned()).await;
    graph.next().await;
    after(&server, &token, &id, "pendente").await;
    assert_eq!(read(server.post(&format!("/v1/propostas/{id}/reenviar-mensagem"), &token)).await.0, 202);
    graph.next().await; // and it hangs
    assert_eq!(told(&server, json!({"id": "wamid.HBgNNTUxMQ==", "status": "read"})).await, 503);
}
