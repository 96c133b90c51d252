//! C14: who gets the page, and who answers: every caller, each way of calling, both profiles.

use reqwest::Method;
use svc_core::{Perfil, Policy};

use crate::harness::{Server, TYPICAL, read, within};

/// The agents that draw previews, as they name themselves.
const PREVIEWS: [&str; 11] = [
    "WhatsApp/2.23.20.0 A",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Facebot/1.0",
    "TelegramBot (like TwitterBot)",
    "Twitterbot/1.0",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
    "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
    "SkypeUriPreview Preview/0.5",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
];
const CURL: (&str, &str) = ("curl/8.5.0", "*/*");
const BROWSER: (&str, &str) = (
    "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Head,
    HeadWithAcao,
    Get,
    GetWithAcao,
    Prefetch(&'static str, &'static str),
    Post,
}

const WAYS: [How; 9] = [
    How::Head,
    How::HeadWithAcao,
    How::Get,
    How::GetWithAcao,
    How::Prefetch("sec-purpose", "prefetch"),
    How::Prefetch("purpose", "prefetch"),
    How::Prefetch("x-moz", "prefetch"),
    How::Prefetch("x-purpose", "preview"),
    How::Post,
];

#[tokio::test]
async fn c14_every_caller_in_each_way_of_calling_gets_its_page_or_its_answer() {
    for perfil in [Perfil::Homologacao, Perfil::Producao] {
        let mut server = Server::with(|config| config.policy = Policy::new(perfil)).await;
        let token = server.token().await;
        let callers = PREVIEWS.map(|agent| (agent, "*/*")).into_iter().chain([CURL, BROWSER]);
        for (number, (caller, way)) in callers.flat_map(|caller| WAYS.map(|way| (caller, way))).enumerate() {
            let body = TYPICAL.replace("PX-2026-000002", &format!("P-{number}"));
            let (status, created) = read(server.post_proposta(&token, body)).await;
            assert_eq!(status, 200, "{created}");
            let (link, cell) = (within(server.next_link()).await, format!("{perfil:?} {caller:?} {way:?}"));
            let with_acao = format!("{link}{}acao=aceitar", if link.contains('?') { '&' } else { '?' });
            let (method, url) = match way {
                How::Head => (Method::HEAD, &link),
                How::HeadWithAcao => (Method::HEAD, &with_acao),
                How::Get => (Method::GET, &link),
                How::GetWithAcao | How::Prefetch(..) => (Method::GET, &with_acao),
                How::Post => (Method::POST, &link),
            };
            let mut request =
                server.http.request(method, url).header("user-agent", caller.0).header("accept", caller.1);
            if let How::Prefetch(name, value) = way {
                request = request.header(name, value);
            }
            if way == How::Post {
                request = request.header("content-type", "application/x-www-form-urlencoded").body("acao=aceitar");
            }
            let answer = request.send().await.unwrap();
            let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
            let (is_preview, is_curl) = (PREVIEWS.contains(&caller.0), caller == CURL);
            let acts = match way {
                How::Post => true,
                How::GetWithAcao => perfil == Perfil::Homologacao && !is_preview,
                How::Head | How::HeadWithAcao | How::Get | How::Prefetch(..) => false,
            };
            // Without an action a program is asked for one; whoever can read a page gets it.
            let asked = is_curl && matches!(way, How::Head | How::Get);
            assert_eq!(status, if asked { 400 } else { 200 }, "{cell}");
            let html = headers["content-type"].to_str().unwrap().starts_with("text/html");
            let json = asked || acts && caller != BROWSER;
            assert_eq!(html, !json, "{cell}");
            let path = format!("/v1/propostas/{}", created["id_proposta_svc"].as_str().unwrap());
            let (_, stored) = read(server.get(&path).bearer_auth(&token)).await;
            assert_eq!(stored["status"], if acts { "ACEITO" } else { "AGUARDANDO_RESPOSTA" }, "{cell}");
        }
    }
}

#[tokio::test]
async fn c17_a_person_reads_a_page_whatever_has_gone_wrong() {
    let server = Server::start().await;
    let path = format!("/confirmar/{}", server.create("https://parceiro.example.com/").await);
    let busy = Server::with(|config| config.max_in_flight = 0).await;
    for (request, status, said) in [
        (server.get(&format!("{path}?acao=talvez")), 400, "Pedido não entendido"),
        (server.http.delete(format!("{}{path}", server.base)), 405, "Pedido não entendido"),
        (server.get("/confirmar/x"), 404, "Proposta não encontrada"),
        (busy.get(&path), 503, "Tente de novo em instantes"),
    ] {
        let (for_program, for_person) = (request.try_clone().unwrap(), request.header("accept", BROWSER.1));
        let page = for_person.send().await.unwrap();
        let headers = page.headers().clone();
        assert_eq!(page.status(), status);
        assert_eq!(
            (headers.contains_key("retry-after"), headers.contains_key("allow")),
            (status == 503, status == 405)
        );
        let page = page.text().await.unwrap();
        assert!(page.contains(&format!("<h1>{said}</h1>")), "{page}");
        // The policy lets in this page's style and nothing else.
        let (_, style) = page.split_once("<style>").unwrap();
        let hash = {
            use base64::Engine;
            use sha2::{Digest, Sha256};
            base64::engine::general_purpose::STANDARD.encode(Sha256::digest(style.split_once("</style>").unwrap().0))
        };
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        for (name, value) in [
            ("content-security-policy", &*policy),
            ("content-type", "text/html; charset=utf-8"),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("x-robots-tag", "noindex, nofollow"),
        ] {
            assert_eq!(headers[name], value, "{said}");
        }
        let problem = for_program.send().await.unwrap();
        assert_eq!(problem.headers()["content-type"], "application/problem+json");
    }
}
