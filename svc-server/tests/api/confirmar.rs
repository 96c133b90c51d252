//! C11–C17: the customer answers once, and nothing else answers in their place.

use serde_json::Value;

use crate::harness::{Receiver, Server, TYPICAL, read, within};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const WEBHOOK: &str = "https://parceiro.example.com/webhooks/svc";

#[tokio::test]
async fn the_first_answer_stands() {
    let server = Server::start().await;
    let path = format!("/confirmar/{}", server.create(WEBHOOK).await);
    let (status, first) = read(server.get(&format!("{path}?acao=aceitar"))).await;
    assert_eq!(status, 200);
    assert_eq!((&first["status"], &first["ja_respondida"]), (&"ACEITO".into(), &false.into()));
    assert_eq!(first["timestamp"], "2026-11-27T20:31:44.123Z");
    server.clock.advance(60);
    let (status, again) = read(server.get(&format!("{path}?acao=aceitar"))).await;
    assert_eq!((status, &again["ja_respondida"]), (200, &true.into()));
    assert_eq!(again["timestamp"], first["timestamp"]);
    let (status, other) = read(server.get(&format!("{path}?acao=recusar"))).await;
    assert_eq!(status, 409);
    assert_eq!((&other["codigo"], &other["status_proposta"]), (&"proposta_ja_respondida".into(), &"ACEITO".into()));
    assert_eq!(other["status"], 409);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f71_conflicting_confirmations_have_one_winner_and_one_event_in_each_of_a_hundred_rounds() {
    let server = Server::start().await;
    let mut receiver = Receiver::answering(["HTTP/1.1 204 No Content"]).await;
    let token = server.token().await;
    for round in 0..100 {
        let body = TYPICAL.replace(WEBHOOK, &receiver.url).replace("PX-2026-000002", &format!("R-{round}"));
        let (_, created) = read(server.post_proposta(&token, body)).await;
        let path = format!("/confirmar/{}", created["id_proposta_svc"].as_str().unwrap());
        let calls: Vec<_> = (0..100)
            .map(|i| (i % 2 == 0, server.get(&format!("{path}?acao={}", ["aceitar", "recusar"][i % 2]))))
            .map(|(accept, call)| (accept, tokio::spawn(read(call))))
            .collect();
        let (mut fresh, mut winner, mut losers) = (0, None, Vec::new());
        for (accept, call) in calls {
            let (status, body) = call.await.unwrap();
            match status {
                200 => {
                    fresh += u32::from(body["ja_respondida"] == false);
                    assert_eq!(*winner.get_or_insert(accept), accept);
                }
                409 => losers.push(body["status_proposta"].clone()),
                _ => panic!("{status} {body}"),
            }
        }
        let winner = if winner.unwrap() { "ACEITO" } else { "RECUSADO" };
        assert_eq!((fresh, losers.len()), (1, 50));
        assert!(losers.iter().all(|status| status == winner));
        let event: Value = serde_json::from_slice(&receiver.next().await.body).unwrap();
        assert_eq!((&event["status"], &event["id_proposta_svc"]), (&winner.into(), &created["id_proposta_svc"]));
    }
    server.stop().await;
    assert!(receiver.is_empty(), "one event each");
}

#[tokio::test]
async fn f21_no_action_and_no_good_action_change_nothing() {
    let server = Server::start().await;
    let path = format!("/confirmar/{}", server.create(WEBHOOK).await);
    for (query, codigo) in [
        ("", "acao_obrigatoria"),
        ("?acao=", "acao_invalida"),
        ("?acao=ACEITAR", "acao_invalida"),
        ("?acao=talvez", "acao_invalida"),
        ("?acao=aceitar&acao=aceitar", "acao_invalida"),
    ] {
        let (status, body) = read(server.get(&format!("{path}{query}"))).await;
        assert_eq!((status, &body["codigo"]), (400, &codigo.into()), "{query}");
    }
    let post = |content_type: &'static str, body: &'static str| {
        read(server.http.post(format!("{}{path}", server.base)).header("content-type", content_type).body(body))
    };
    for (content_type, body, status, codigo) in [
        ("application/json", "{}", 400, "acao_obrigatoria"),
        ("application/json", r#"{"acao":"Aceitar"}"#, 400, "acao_invalida"),
        ("application/json", r#"{"acao":"aceitar","acao":"recusar"}"#, 400, "acao_invalida"),
        ("application/json", r#"{"acao":1}"#, 400, "acao_invalida"),
        ("application/json", "acao=aceitar", 400, "requisicao_invalida"),
        ("application/x-www-form-urlencoded", "", 400, "acao_obrigatoria"),
        ("application/x-www-form-urlencoded", "acao=aceitar&acao=recusar", 400, "acao_invalida"),
        ("text/plain", "acao=aceitar", 415, "tipo_de_conteudo_invalido"),
    ] {
        let (found, answer) = post(content_type, body).await;
        assert_eq!((found, &answer["codigo"]), (status, &codigo.into()), "{content_type} {body}");
    }
    let (status, answer) = post("application/json", r#"{"acao":"recusar"}"#).await;
    assert_eq!((status, &answer["status"], &answer["ja_respondida"]), (200, &"RECUSADO".into(), &false.into()));
}

#[tokio::test]
async fn f22_every_unknown_id_gets_the_same_answer() {
    let server = Server::start().await;
    let id = server.create(WEBHOOK).await;
    let mut bodies = Vec::new();
    for unknown in [
        "x",
        "07070707-0707-4707-8707-070707070707",
        &id.to_uppercase(),
        &format!("urn:uuid:{id}"),
        &format!("%7B{id}%7D"),
    ] {
        let (status, mut body) = read(server.get(&format!("/confirmar/{unknown}?acao=aceitar"))).await;
        assert_eq!((status, &body["codigo"]), (404, &"proposta_nao_encontrada".into()), "{unknown}");
        body.as_object_mut().unwrap().remove("id_requisicao");
        bodies.push(body);
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn f25_previews_heads_and_prefetches_get_a_page_and_answer_nothing() {
    let server = Server::start().await;
    let path = format!("/confirmar/{}", server.create(WEBHOOK).await);
    let url = format!("{}{path}?acao=aceitar", server.base);
    for (name, value) in [
        ("user-agent", "WhatsApp/2.23.20.0 A"),
        ("user-agent", "facebookexternalhit/1.1"),
        ("sec-purpose", "prefetch;prerender"),
        ("purpose", "prefetch"),
    ] {
        let answer = server.http.get(&url).header(name, value).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (200, &"text/html; charset=utf-8".parse().unwrap())
        );
        assert!(answer.text().await.unwrap().contains("Aceitar</button>"), "{value}");
    }
    let head = server.http.head(&url).send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.bytes().await.unwrap(), "");
    let (_, answer) = read(server.get(&format!("{path}?acao=recusar"))).await;
    assert_eq!(answer["ja_respondida"], false, "nobody had answered");
}

#[tokio::test]
async fn a_browser_reads_the_offer_answers_by_its_form_and_reads_the_answer() {
    let server = Server::start().await;
    let mut body = TYPICAL.replace("Beltrano da Silva Exemplo", "D'Ávila <b>Beltrano</b>");
    body = body.replace("\"cet_am\": 3.86,", "");
    let (_, created) = read(server.post_proposta(&server.token().await, body)).await;
    let url = format!("{}/confirmar/{}", server.base, created["id_proposta_svc"].as_str().unwrap());
    let page = server.http.get(&url).header("accept", BROWSER).send().await.unwrap();
    let headers = page.headers().clone();
    assert!(headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'; style-src 'sha256-"));
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-robots-tag", "noindex, nofollow"),
    ] {
        assert_eq!(headers[name], value);
    }
    let page = page.text().await.unwrap();
    assert!(page.len() < 8 * 1024);
    for shown in [
        "Credora &#60;Um&#62;",
        "D&#39;Ávila",
        "***.456.789-**",
        "57,48% a.a.",
        "R$\u{a0}5.107,32",
        "12x de R$\u{a0}528,21",
        "01/12/2027",
        "não informado",
    ] {
        assert!(page.contains(shown), "{shown} in {page}");
    }
    for hidden in ["<b>", "123.456", "5521900000002"] {
        assert!(!page.contains(hidden), "{hidden}");
    }
    let form = |acao: &'static str| {
        let request = server.http.post(&url).header("accept", BROWSER).body(format!("acao={acao}"));
        request.header("content-type", "application/x-www-form-urlencoded").send()
    };
    let answered = form("aceitar").await.unwrap().text().await.unwrap();
    assert!(answered.contains("Você aceitou a proposta em 27/11/2026 às 17:31 (horário de Brasília)."), "{answered}");
    assert!(!answered.contains("<button"));
    let conflict = form("recusar").await.unwrap();
    assert_eq!(conflict.status(), 409);
    assert!(conflict.text().await.unwrap().contains("Você aceitou a proposta"));
    let reloaded = server.http.get(&url).header("accept", BROWSER).send().await.unwrap().text().await.unwrap();
    assert!(reloaded.contains("Você aceitou a proposta") && !reloaded.contains("<button"));
    let missing =
        server.http.get(format!("{}/confirmar/x", server.base)).header("accept", BROWSER).send().await.unwrap();
    assert_eq!(missing.status(), 404);
    assert!(missing.text().await.unwrap().contains("Proposta não encontrada"));
}

#[tokio::test]
async fn c16_in_producao_only_the_message_s_link_answers_and_only_by_post() {
    let mut server = Server::producao().await;
    let (status, created) = read(server.post_proposta(&server.token().await, TYPICAL)).await;
    assert_eq!(status, 200, "{created}");
    let link = within(server.next_link()).await;
    let path = format!("/confirmar/{}", created["id_proposta_svc"].as_str().unwrap());
    for without_key in [format!("{path}?acao=aceitar"), format!("{path}?chave=x&acao=talvez"), path.clone()] {
        assert_eq!(read(server.get(&without_key)).await.0, 404, "{without_key}");
    }
    let page = server.http.get(format!("{link}&acao=aceitar")).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("Aceitar</button>"), "a GET shows the page");
    assert!(
        page.contains("<form method=\"post\">"),
        "whose form goes back to where it came from, key and prefix included"
    );
    let json =
        |url: String| server.http.post(url).header("content-type", "application/json").body(r#"{"acao":"aceitar"}"#);
    assert_eq!(read(json(format!("{}{path}", server.base))).await.0, 404);
    let (status, answer) = read(json(link)).await;
    assert_eq!((status, &answer["ja_respondida"]), (200, &false.into()));
}
