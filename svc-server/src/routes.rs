//! One match from method and path to a handler; a handler reads, calls the core, calls the store, replies.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode};
use serde::Serialize;

use crate::app::App;
use crate::reply::{self, Problem, Reply, X_REQUEST_ID, json};
use crate::request::{accepts, check_host, request_id};

/// A request must be answered within this time (C38).
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// A path of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'p> {
    Login,
    Propostas,
    Proposta(&'p str),
    ReenviarWebhook(&'p str),
    ReenviarMensagem(&'p str),
    Confirmar(&'p str),
    Saude,
    OpenApi,
    #[cfg(feature = "whatsapp")]
    WhatsApp,
}

impl App {
    /// Answers a request: within its deadline, if there is room for it, and always with the request's id. One line of
    /// the log tells of it, without its query, which can hold a link key.
    pub(crate) async fn handle(self: Arc<Self>, request: Request<Incoming>, peer: IpAddr) -> Reply {
        let began = Instant::now();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let route = Route::of(&path);
        let given = request_id(request.headers()).map(str::to_owned);
        let id = given.map_or_else(|| self.new_request_id(), Ok).unwrap_or_default();
        // A person reads what the link shows, whatever has gone wrong.
        let for_person = matches!(route, Some(Route::Confirmar(_))) && accepts(request.headers()).prefers_html;
        let answer = match self.in_flight.try_acquire() {
            Ok(_permit) => {
                let answer = Arc::clone(&self).route(route, request, peer);
                let answer = tokio::time::timeout(REQUEST_DEADLINE, answer);
                answer.await.unwrap_or(Err(Problem::Unavailable(1)))
            }
            Err(_) => Err(Problem::Unavailable(1)),
        };
        let mut reply =
            answer.unwrap_or_else(|problem| if for_person { problem.page(&id) } else { problem.reply(&id) });
        let template = route.map_or("-", Route::template);
        let (status, took) = (reply.status().as_u16(), began.elapsed());
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.metrics.request(template, status, took);
        tracing::info!(%method, route = template, status, duration_ms, request_id = id, "request");
        // The caller's checked id, or hex of ours: a legal value either way.
        reply.headers_mut().extend(HeaderValue::try_from(id).ok().map(|id| (X_REQUEST_ID, id)));
        reply
    }

    /// Answers on the metrics' own listener: `GET /metrics`, and nothing else.
    pub(crate) async fn scrape(self: Arc<Self>, request: Request<Incoming>, _peer: IpAddr) -> Reply {
        let answer = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/metrics") => self.metrics_text().await.map_err(Problem::from),
            (_, "/metrics") => Err(Problem::MethodNotAllowed("GET, HEAD")),
            _ => Err(Problem::RouteNotFound),
        };
        let id = self.new_request_id().unwrap_or_default();
        let mut reply = answer.map_or_else(|problem| problem.reply(&id), reply::metrics);
        reply.headers_mut().extend(HeaderValue::try_from(id).ok().map(|id| (X_REQUEST_ID, id)));
        reply
    }

    async fn route(
        self: Arc<Self>,
        route: Option<Route<'_>>,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Reply, Problem> {
        check_host(request.headers())?;
        if !is_known(request.method()) {
            return Err(Problem::MethodUnknown);
        }
        let route = route.filter(|route| self.has(*route)).ok_or(Problem::RouteNotFound)?;
        if request.method() == Method::OPTIONS {
            return Ok(reply::options(route.methods()));
        }
        match (request.method(), route) {
            // Apart, or every request would have room for the largest that can come of it, and that is copied.
            (&Method::POST, Route::Login) => Box::pin(self.login(request, peer)).await,
            (&Method::POST, Route::Propostas) => Box::pin(self.create(request)).await,
            (&Method::GET | &Method::HEAD, Route::Propostas) => Box::pin(self.find(&request)).await,
            (&Method::GET | &Method::HEAD, Route::Proposta(id)) => Box::pin(self.show(id, &request)).await,
            (&Method::GET | &Method::HEAD | &Method::POST, Route::Confirmar(id)) => {
                Box::pin(self.confirmar(id, request)).await
            }
            (&Method::POST, Route::ReenviarWebhook(id)) => Box::pin(self.resend_webhook(id, request)).await,
            (&Method::POST, Route::ReenviarMensagem(id)) => Box::pin(self.resend_message(id, request)).await,
            (&Method::GET | &Method::HEAD, Route::Saude) => self.saude().await,
            (&Method::GET | &Method::HEAD, Route::OpenApi) => Ok(reply::yaml(OPENAPI)),
            #[cfg(feature = "whatsapp")]
            (&Method::GET | &Method::HEAD, Route::WhatsApp) => self.whatsapp_challenge(&request),
            #[cfg(feature = "whatsapp")]
            (&Method::POST, Route::WhatsApp) => Box::pin(self.whatsapp_statuses(request)).await,
            _ => Err(Problem::MethodNotAllowed(route.methods())),
        }
    }

    /// Whether a path of ours is switched on.
    #[cfg_attr(not(feature = "whatsapp"), expect(clippy::unused_self, reason = "all are"))]
    fn has(&self, route: Route<'_>) -> bool {
        match route {
            #[cfg(feature = "whatsapp")]
            Route::WhatsApp => self.config.whatsapp_webhook.is_some(),
            _ => true,
        }
    }

    /// `GET /saude` (C19): 503 when the store is away.
    async fn saude(&self) -> Result<Reply, Problem> {
        #[derive(Serialize)]
        struct Saude {
            status: &'static str,
            perfil: &'static str,
            versao: &'static str,
        }
        let saude = Saude { status: "ok", perfil: self.perfil().as_str(), versao: env!("CARGO_PKG_VERSION") };
        self.store.ping().await?;
        Ok(json(StatusCode::OK, &saude))
    }
}

/// What a machine can know of this server.
pub(crate) const OPENAPI: &str = include_str!("../openapi.yaml");

impl<'p> Route<'p> {
    fn of(path: &'p str) -> Option<Self> {
        match path {
            "/v1/login" => Some(Self::Login),
            "/v1/propostas" => Some(Self::Propostas),
            "/saude" => Some(Self::Saude),
            "/openapi.yaml" => Some(Self::OpenApi),
            #[cfg(feature = "whatsapp")]
            "/whatsapp/webhook" => Some(Self::WhatsApp),
            _ => {
                let of = |prefix, suffix| {
                    let id = path.strip_prefix(prefix)?.strip_suffix(suffix)?;
                    (!id.contains('/')).then_some(id)
                };
                of("/confirmar/", "")
                    .map(Self::Confirmar)
                    .or_else(|| of("/v1/propostas/", "").map(Self::Proposta))
                    .or_else(|| of("/v1/propostas/", "/reenviar-webhook").map(Self::ReenviarWebhook))
                    .or_else(|| of("/v1/propostas/", "/reenviar-mensagem").map(Self::ReenviarMensagem))
            }
        }
    }

    /// What its `Allow` says.
    const fn methods(self) -> &'static str {
        match self {
            Self::Login | Self::ReenviarWebhook(_) | Self::ReenviarMensagem(_) => "POST, OPTIONS",
            Self::Propostas => "GET, HEAD, POST, OPTIONS",
            Self::Confirmar(_) => "GET, HEAD, POST, OPTIONS",
            Self::Proposta(_) | Self::Saude | Self::OpenApi => "GET, HEAD, OPTIONS",
            #[cfg(feature = "whatsapp")]
            Self::WhatsApp => "GET, HEAD, POST, OPTIONS",
        }
    }

    /// Its name in logs, without what identifies anything.
    const fn template(self) -> &'static str {
        match self {
            Self::Login => "/v1/login",
            Self::Propostas => "/v1/propostas",
            Self::Proposta(_) => "/v1/propostas/{id_proposta_svc}",
            Self::ReenviarWebhook(_) => "/v1/propostas/{id_proposta_svc}/reenviar-webhook",
            Self::ReenviarMensagem(_) => "/v1/propostas/{id_proposta_svc}/reenviar-mensagem",
            Self::Confirmar(_) => "/confirmar/{id_proposta_svc}",
            Self::Saude => "/saude",
            Self::OpenApi => "/openapi.yaml",
            #[cfg(feature = "whatsapp")]
            Self::WhatsApp => "/whatsapp/webhook",
        }
    }
}

/// The methods of RFC 9110 and RFC 5789, and QUERY; others are not implemented (C18).
fn is_known(method: &Method) -> bool {
    const KNOWN: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"];
    KNOWN.contains(&method.as_str())
}
