//! C23–C25: who may call.

use serde_json::Value;

use crate::harness::{Server, WALKTHROUGH, read};

#[tokio::test]
async fn a_partner_gets_a_bearer_token_for_an_hour() {
    let server = Server::start().await;
    let request = server.http.post(format!("{}/v1/login", server.base));
    let answer = request.body(r#"{"client_id":"parceiro-demo","client_secret":"segredo-demo"}"#).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    assert_eq!(answer.headers()["x-svc-capabilities"], "idempotent-propostas");
    assert_eq!(answer.headers()["content-type"], "application/json");
    let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
    assert_eq!((&body["token_type"], &body["expires_in"]), (&"Bearer".into(), &3600.into()));
    assert_eq!(body.as_object().unwrap().len(), 3);
}

#[tokio::test]
async fn f18_wrong_secret_and_unknown_client_are_told_apart_by_nothing() {
    let server = Server::start().await;
    let mut answers = Vec::new();
    for (client_id, client_secret) in
        [("parceiro-demo", "errado"), ("ninguem", "segredo-demo"), ("outro", "segredo-demo")]
    {
        let (status, mut body) = server.login(client_id, client_secret).await;
        assert_eq!(status, 401);
        assert_eq!(body["codigo"], "credenciais_invalidas");
        body.as_object_mut().unwrap().remove("id_requisicao").unwrap();
        answers.push(body);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    let (status, body) = server.login("parceiro-demo", &"x".repeat(60 * 1024)).await;
    assert_eq!((status, &body["codigo"]), (401, &"credenciais_invalidas".into()));
    let (status, body) = server.login("", " ").await;
    assert_eq!(status, 400);
    assert_eq!(body["violacoes"][0]["propriedade"], "/client_id");
    assert_eq!(body["violacoes"][1]["codigo"], "campo_obrigatorio");
}

#[tokio::test]
async fn f19_a_thousand_wrong_logins_shut_out_whoever_makes_them_and_nobody_else() {
    let proxy = svc_core::IpRange::parse("127.0.0.0/8").unwrap();
    let server = Server::with(|config| config.trusted_proxies = vec![proxy]).await;
    let login = |secret: &str, from: &str| {
        let body = format!(r#"{{"client_id":"parceiro-demo","client_secret":"{secret}"}}"#);
        server.http.post(format!("{}/v1/login", server.base)).header("x-forwarded-for", from).body(body).send()
    };
    let mut statuses = std::collections::BTreeMap::new();
    for _ in 0..1_000 {
        let answer = login("errado", "203.0.113.7").await.unwrap();
        let status = answer.status().as_u16();
        *statuses.entry(status).or_insert(0) += 1;
        if status == 429 {
            assert_eq!(answer.headers()["retry-after"], "60");
        }
    }
    assert_eq!(statuses, [(401, 10), (429, 990)].into());
    assert_eq!(login("segredo-demo", "203.0.113.7").await.unwrap().status(), 429, "even with the right secret");
    assert_eq!(login("segredo-demo", "203.0.113.8").await.unwrap().status(), 200, "the right partner elsewhere");
    server.clock.advance(60);
    assert_eq!(login("segredo-demo", "203.0.113.7").await.unwrap().status(), 200);
}

#[tokio::test]
async fn f15_f17_a_proposal_needs_a_live_token() {
    let server = Server::start().await;
    let token = server.token().await;
    let send = |authorization: Option<String>| {
        let mut request = server.http.post(format!("{}/v1/propostas", server.base)).body(WALKTHROUGH);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        request.send()
    };
    for (authorization, codigo, challenge) in [
        (None, "token_ausente", r#"Bearer realm="svc""#),
        (Some("Basic dTpw".to_owned()), "token_ausente", r#"Bearer realm="svc""#),
        (Some("Bearer x".to_owned()), "token_invalido", r#"Bearer realm="svc", error="invalid_token""#),
    ] {
        let answer = send(authorization).await.unwrap();
        assert_eq!(answer.status(), 401);
        assert_eq!(answer.headers()["www-authenticate"], challenge);
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(body["codigo"], codigo);
        assert_eq!(body["type"], format!("urn:svc:erro:{codigo}"));
    }
    let twice = server.post_proposta(&token, WALKTHROUGH).bearer_auth(&token);
    assert_eq!(read(twice).await.1["codigo"], "token_invalido", "two headers are one too many");
    server.clock.advance(3_599);
    assert_eq!(send(Some(format!("Bearer {token}"))).await.unwrap().status(), 200);
    server.clock.advance(1);
    let (status, body) = read(server.post_proposta(&token, WALKTHROUGH)).await;
    assert_eq!((status, &body["codigo"]), (401, &"token_expirado".into()));
}

#[test]
fn the_demonstration_partner_s_credentials_are_the_documented_ones() {
    let partners = svc_server::Partners::demonstration();
    assert!(partners.authenticate("parceiro-demo", "segredo-demo"));
    assert!(!partners.authenticate("parceiro-demo", "segredo"));
    assert!(!partners.authenticate("ninguem", "segredo-demo"));
    assert_eq!(svc_server::DEMO_WEBHOOK_SECRET, "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj");
}
