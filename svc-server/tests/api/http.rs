//! C18, C36, C37: every request gets an answer of its kind.

use crate::harness::{Server, read};

#[tokio::test]
async fn f20_paths_and_methods() {
    let server = Server::start().await;
    let id = server.create("https://parceiro.example.com/webhooks/svc").await;
    let confirmar = format!("/confirmar/{id}");
    for (method, path, status, codigo, allow) in [
        ("GET", "/v1/login", 405, "metodo_nao_permitido", Some("POST, OPTIONS")),
        ("PUT", "/v1/propostas", 405, "metodo_nao_permitido", Some("GET, HEAD, POST, OPTIONS")),
        ("DELETE", confirmar.as_str(), 405, "metodo_nao_permitido", Some("GET, HEAD, POST, OPTIONS")),
        ("TRACE", "/saude", 405, "metodo_nao_permitido", Some("GET, HEAD, OPTIONS")),
        ("QUERY", "/saude", 405, "metodo_nao_permitido", Some("GET, HEAD, OPTIONS")),
        ("BREW", "/saude", 501, "metodo_desconhecido", None),
        ("GET", "/", 404, "rota_nao_encontrada", None),
        ("GET", "/saude/", 404, "rota_nao_encontrada", None),
        ("GET", "/confirmar", 404, "rota_nao_encontrada", None),
        ("GET", "/v1/Login", 404, "rota_nao_encontrada", None),
    ] {
        let request = server.http.request(method.parse().unwrap(), format!("{}{path}", server.base));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{method} {path}");
        assert_eq!(answer.headers().get("allow").map(|allow| allow.to_str().unwrap()), allow, "{method} {path}");
        let body: serde_json::Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(body["codigo"], codigo, "{method} {path}");
    }
    let options =
        server.http.request("OPTIONS".parse().unwrap(), format!("{}/v1/login", server.base)).send().await.unwrap();
    assert_eq!((options.status().as_u16(), &options.headers()["allow"]), (204, &"POST, OPTIONS".parse().unwrap()));
}

#[tokio::test]
async fn bodies_have_a_type_and_a_limit() {
    let server = Server::start().await;
    let token = server.token().await;
    let text = server.post_proposta(&token, "{}").header("content-type", "text/plain");
    assert_eq!(read(text).await.0, 415, "two types are one too many");
    let url = format!("{}/v1/propostas", server.base);
    let form = server.http.post(&url).bearer_auth(&token).header("content-type", "application/x-www-form-urlencoded");
    let (status, body) = read(form.body("a=b")).await;
    assert_eq!((status, &body["codigo"]), (415, &"tipo_de_conteudo_invalido".into()));
    let untyped = server.http.post(&url).bearer_auth(&token).body("{}");
    assert_eq!(read(untyped).await.0, 400, "no type is JSON");
    let large = |bytes: usize| format!("{{\"x\":\"{}\"}}", "x".repeat(bytes - 8));
    assert_eq!(read(server.post_proposta(&token, large(64 * 1024))).await.0, 400);
    let (status, body) = read(server.post_proposta(&token, large(64 * 1024 + 1))).await;
    assert_eq!((status, &body["codigo"]), (413, &"corpo_grande_demais".into()));
}

#[tokio::test]
async fn every_answer_carries_a_request_id_the_caller_s_if_it_is_one() {
    let server = Server::start().await;
    let given = server.get("/saude").header("x-request-id", "pedido-1").send().await.unwrap();
    assert_eq!(given.headers()["x-request-id"], "pedido-1");
    for request in [server.get("/saude"), server.get("/nada").header("x-request-id", "<script>")] {
        let answer = request.send().await.unwrap();
        let id = answer.headers()["x-request-id"].to_str().unwrap().to_owned();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        let body: serde_json::Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert!(body["id_requisicao"].is_null() || body["id_requisicao"] == id.as_str());
    }
}

#[tokio::test]
async fn health_tells_profile_and_version() {
    let server = Server::start().await;
    let (status, body) = read(server.get("/saude")).await;
    assert_eq!(status, 200);
    assert_eq!((&body["status"], &body["perfil"]), (&"ok".into(), &"homologacao".into()));
    assert_eq!(body["versao"], env!("CARGO_PKG_VERSION"));
    assert_eq!(server.http.head(format!("{}/saude", server.base)).send().await.unwrap().status(), 200);
}

/// The description that the server gives of itself names what the code has: no route, method or code more or less.
#[tokio::test]
async fn openapi_names_the_routes_and_codes_of_the_code() {
    let server = Server::start().await;
    let answer = server.get("/openapi.yaml").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/yaml");
    let text = answer.text().await.unwrap();
    assert_eq!(text, include_str!("../../openapi.yaml"));
    let id = server.create("https://parceiro.example.com/webhooks/svc").await;
    let paths = text.split("\npaths:\n").nth(1).unwrap().split("\nsecurity:\n").next().unwrap();
    let mut routes = 0;
    for block in paths.split("\n  /").map(|block| block.trim_start_matches("  /")) {
        let path = block.lines().next().unwrap().trim_end_matches(':').replace("{id_proposta_svc}", &id);
        let request = server.http.request("OPTIONS".parse().unwrap(), format!("{}/{path}", server.base));
        let allow = request.send().await.unwrap().headers()["allow"].to_str().unwrap().to_owned();
        for method in ["get", "post", "put", "patch", "delete"] {
            let named = block.contains(&format!("\n    {method}:\n"));
            assert_eq!(
                named,
                allow.split(", ").any(|allowed| allowed.eq_ignore_ascii_case(method)),
                "{method} /{path}"
            );
        }
        routes += 1;
    }
    assert_eq!(routes, 8);
    let source = include_str!("../../src/reply.rs")
        .split("fn describe")
        .nth(1)
        .unwrap()
        .split("    /// The answer")
        .next()
        .unwrap();
    let words = |text: &str, is: fn(&str) -> bool| {
        text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'))
            .filter(|word| is(word))
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    // In the code each stands between quotes; in the file they are the list of Problema.
    let codes =
        source.split('"').skip(1).step_by(2).filter(|text| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
    let codes: std::collections::BTreeSet<_> = codes.map(str::to_owned).collect();
    let listed = text.split("    Problema:\n").nth(1).unwrap().split("        codigo:\n").nth(1).unwrap();
    let listed = words(listed.split("        id_requisicao").next().unwrap(), |word| {
        word.contains('_') || word == "indisponivel"
    });
    assert_eq!(codes, listed);
}
