//! Answers: JSON, pages, and every error of ours as `application/problem+json` (C36, C37).

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;
use svc_core::{Invalid, Status, Violacao};

use crate::auth::Refused;
use crate::metrics::OPENMETRICS;
use crate::page::{self, CSP, Html};

pub(crate) type Reply = Response<Full<Bytes>>;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const X_SVC_REPLAYED: HeaderName = HeaderName::from_static("x-svc-replayed");
pub(crate) const X_SVC_CAPABILITIES: HeaderName = HeaderName::from_static("x-svc-capabilities");

/// An error of ours: what the caller is told. Why it happened is for the log, and said where it happens.
#[derive(Clone, Debug)]
pub(crate) enum Problem {
    Invalid(Invalid),
    Host,
    ActionMissing,
    ActionInvalid,
    Credentials,
    Token(Refused),
    ProposalNotFound,
    RouteNotFound,
    /// With the methods that the path has.
    MethodNotAllowed(&'static str),
    MethodUnknown,
    Timeout,
    PartnerIdInUse,
    AlreadyAnswered(Status),
    NotAnswered,
    BodyTooLarge,
    ContentType,
    /// Too many failed logins; try again after these seconds.
    TooManyAttempts(u32),
    /// Try again after these seconds.
    Unavailable(u32),
    Internal,
}

impl Problem {
    /// Status, code, title and explanation. The explanations are for a person, and may change; the codes may not.
    fn describe(&self) -> (StatusCode, &'static str, &'static str, &'static str) {
        match self {
            Self::Invalid(_) => (
                StatusCode::BAD_REQUEST,
                "requisicao_invalida",
                "Requisição inválida",
                "O corpo tem uma ou mais violações; cada uma está em violacoes.",
            ),
            Self::Host => (
                StatusCode::BAD_REQUEST,
                "host_invalido",
                "Host inválido",
                "Envie um único cabeçalho Host, com nome ou endereço e, se houver, porta.",
            ),
            Self::ActionMissing => (
                StatusCode::BAD_REQUEST,
                "acao_obrigatoria",
                "Ação obrigatória",
                "Informe acao=aceitar ou acao=recusar.",
            ),
            Self::ActionInvalid => (
                StatusCode::BAD_REQUEST,
                "acao_invalida",
                "Ação inválida",
                "acao deve vir uma vez, e ser exatamente aceitar ou recusar.",
            ),
            Self::Credentials => (
                StatusCode::UNAUTHORIZED,
                "credenciais_invalidas",
                "Credenciais inválidas",
                "client_id ou client_secret não conferem.",
            ),
            Self::Token(Refused::Absent) => (
                StatusCode::UNAUTHORIZED,
                "token_ausente",
                "Token ausente",
                "Envie Authorization: Bearer com o access_token obtido em POST /v1/login.",
            ),
            Self::Token(Refused::Invalid) => (
                StatusCode::UNAUTHORIZED,
                "token_invalido",
                "Token inválido",
                "O token não é deste serviço; obtenha outro em POST /v1/login.",
            ),
            Self::Token(Refused::Expired) => (
                StatusCode::UNAUTHORIZED,
                "token_expirado",
                "Token expirado",
                "O token passou da validade; obtenha outro em POST /v1/login.",
            ),
            Self::ProposalNotFound => (
                StatusCode::NOT_FOUND,
                "proposta_nao_encontrada",
                "Proposta não encontrada",
                "Não há proposta com este id.",
            ),
            Self::RouteNotFound => {
                (StatusCode::NOT_FOUND, "rota_nao_encontrada", "Rota não encontrada", "Este caminho não existe.")
            }
            Self::MethodNotAllowed(_) => (
                StatusCode::METHOD_NOT_ALLOWED,
                "metodo_nao_permitido",
                "Método não permitido",
                "Este caminho existe, mas não com este método; veja Allow.",
            ),
            Self::MethodUnknown => (
                StatusCode::NOT_IMPLEMENTED,
                "metodo_desconhecido",
                "Método desconhecido",
                "O serviço não conhece este método.",
            ),
            Self::Timeout => {
                (StatusCode::REQUEST_TIMEOUT, "tempo_esgotado", "Tempo esgotado", "O corpo não chegou a tempo.")
            }
            Self::PartnerIdInUse => (
                StatusCode::CONFLICT,
                "id_proposta_parceiro_em_uso",
                "id_proposta_parceiro em uso",
                "Já existe uma proposta com este id_proposta_parceiro e outro conteúdo.",
            ),
            Self::AlreadyAnswered(_) => (
                StatusCode::CONFLICT,
                "proposta_ja_respondida",
                "Proposta já respondida",
                "O cliente já respondeu, e a primeira resposta vale; veja status_proposta.",
            ),
            Self::NotAnswered => (
                StatusCode::CONFLICT,
                "proposta_sem_resposta",
                "Proposta sem resposta",
                "O cliente ainda não respondeu; não há notificação a reenviar.",
            ),
            Self::BodyTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "corpo_grande_demais",
                "Corpo grande demais",
                "O corpo pode ter até 64 KiB.",
            ),
            Self::ContentType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "tipo_de_conteudo_invalido",
                "Tipo de conteúdo inválido",
                "Envie Content-Type: application/json; em /confirmar, também application/x-www-form-urlencoded.",
            ),
            Self::TooManyAttempts(_) => (
                StatusCode::TOO_MANY_REQUESTS,
                "muitas_tentativas",
                "Muitas tentativas",
                "Muitos logins falharam; tente de novo depois do tempo em Retry-After.",
            ),
            Self::Unavailable(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "indisponivel",
                "Serviço indisponível",
                "Tente de novo depois do tempo em Retry-After.",
            ),
            Self::Internal => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "erro_interno",
                "Erro interno",
                "O serviço falhou; informe id_requisicao a quem o opera.",
            ),
        }
    }

    /// What a person gets of it, with the same status and headers.
    pub(crate) fn page(&self, request_id: &str) -> Reply {
        let (mut page, problem) = (Reply::from(page::error(self.describe().0)), self.reply(request_id));
        for name in [ALLOW, RETRY_AFTER] {
            page.headers_mut().extend(problem.headers().get(&name).map(|value| (name, value.clone())));
        }
        page
    }

    /// The answer, with the headers that its kind asks for.
    pub(crate) fn reply(&self, request_id: &str) -> Reply {
        let (status, codigo, title, detail) = self.describe();
        let body = Body {
            r#type: format!("urn:svc:erro:{codigo}"),
            title,
            status: status.as_u16(),
            detail,
            codigo,
            id_requisicao: request_id,
            status_proposta: match self {
                Self::AlreadyAnswered(status) => Some(status.as_str()),
                _ => None,
            },
            violacoes: match self {
                Self::Invalid(invalid) => Some(invalid.violacoes()),
                _ => None,
            },
        };
        let mut reply = json(status, &body);
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self {
            Self::Credentials | Self::Token(Refused::Absent) => {
                reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer realm="svc""#));
            }
            Self::Token(Refused::Invalid | Refused::Expired) => {
                let challenge = HeaderValue::from_static(r#"Bearer realm="svc", error="invalid_token""#);
                reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            Self::MethodNotAllowed(methods) => {
                reply.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
            }
            Self::Unavailable(seconds) | Self::TooManyAttempts(seconds) => {
                reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(*seconds));
            }
            _ => {}
        }
        reply
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

/// RFC 9457, with our members behind its own.
#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    codigo: &'a str,
    id_requisicao: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_proposta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    violacoes: Option<&'a [Violacao]>,
}

/// A JSON answer; nothing of this service may be kept by a cache.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(body).expect("answers are structs of text and numbers");
    with_type(status, "application/json", body.into())
}

/// A page, behind the headers that keep it what it is (C17).
impl From<Html> for Reply {
    fn from(page: Html) -> Self {
        let mut reply = with_type(page.status, "text/html; charset=utf-8", page.text.into());
        let headers = reply.headers_mut();
        headers.insert("content-security-policy", HeaderValue::from_static(&CSP));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
        headers.insert("x-robots-tag", HeaderValue::from_static("noindex, nofollow"));
        reply
    }
}

/// The description of this service for machines.
pub(crate) fn yaml(text: &'static str) -> Reply {
    with_type(StatusCode::OK, "application/yaml", Bytes::from_static(text.as_bytes()))
}

/// What is counted, for a monitoring system.
pub(crate) fn metrics(text: String) -> Reply {
    with_type(StatusCode::OK, OPENMETRICS, text.into())
}

/// A text that nobody takes for anything else.
#[cfg(feature = "whatsapp")]
pub(crate) fn text(text: String) -> Reply {
    let mut reply = with_type(StatusCode::OK, "text/plain; charset=utf-8", text.into());
    reply.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    reply
}

/// No body, for OPTIONS (C18).
pub(crate) fn options(methods: &'static str) -> Reply {
    let mut reply = Reply::new(Full::default());
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    reply
}

fn with_type(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Reply::new(Full::new(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
