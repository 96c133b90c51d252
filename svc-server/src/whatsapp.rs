//! The customer's message as a WhatsApp template, through Meta's Cloud API (C35).

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use svc_core::{Dados, Envio, SendOutcome};
use url::Url;

use crate::format::{ABSENT, rate, reais};
use crate::seams::Clock;

mod statuses;
pub use statuses::WhatsAppWebhook;

/// One deadline over a whole attempt; its lease outlives it.
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(15);
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Of an answer no more is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// After a fault that every message would meet, nothing is sent for so long.
const PAUSE: Duration = Duration::from_secs(60);
/// What Meta asks to wait before a customer who has had enough messages is sent another.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Of the template; a page in another language is another template.
const LANGUAGE: &str = "pt_BR";

/// The sender's account at Meta.
#[derive(Clone)]
#[non_exhaustive]
pub struct WhatsAppAccount {
    /// Where the API is: `https://graph.facebook.com`, or a test's double.
    pub api: String,
    /// The API's version, such as `v23.0`.
    pub version: String,
    /// The id of the sending number, not the number.
    pub phone_number_id: String,
    /// The access token of a system user.
    pub token: String,
    /// The name of the approved template.
    pub template: String,
}

/// An account that cannot be used. It says which part, and nothing of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadWhatsAppAccount {
    /// Not an `https` address; `http` only to this machine.
    #[error("not an https address without a path, such as https://graph.facebook.com")]
    Api,
    /// Not a version.
    #[error("not a version such as v23.0")]
    Version,
    /// Not digits.
    #[error("not the id of a phone number, which is digits only")]
    PhoneNumberId,
    /// Not the characters of a token.
    #[error("not a token: it has characters that a header cannot hold, or none")]
    Token,
    /// Not a template's name.
    #[error("not a template's name, of lower-case letters, digits and _")]
    Template,
}

/// A sender of template messages.
pub struct WhatsApp {
    http: reqwest::Client,
    messages: Url,
    token: HeaderValue,
    template: String,
    pause: Mutex<Pause>,
}

/// Whether a fault of the account holds all messages up.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// By the clock that never jumps.
    until: Option<Duration>,
    /// It is said once, and taken back once.
    said: bool,
}

impl WhatsAppAccount {
    /// An account at Meta, by its parts.
    pub fn new(phone_number_id: &str, token: &str, template: &str) -> Self {
        Self {
            api: "https://graph.facebook.com".to_owned(),
            version: "v23.0".to_owned(),
            phone_number_id: phone_number_id.to_owned(),
            token: token.to_owned(),
            template: template.to_owned(),
        }
    }
}

impl WhatsApp {
    /// A sender for an account. Nothing is asked of Meta yet.
    ///
    /// ```
    /// use svc_server::{BadWhatsAppAccount, WhatsApp, WhatsAppAccount};
    /// let account = WhatsAppAccount::new("106540352242922", "EAAG-token", "proposta_de_emprestimo");
    /// assert!(WhatsApp::new(account).is_ok());
    ///
    /// let number = WhatsAppAccount::new("+55 11 90000-0001", "EAAG-token", "proposta_de_emprestimo");
    /// assert_eq!(WhatsApp::new(number).unwrap_err(), BadWhatsAppAccount::PhoneNumberId);
    /// ```
    ///
    /// # Errors
    ///
    /// Which part of the account cannot be used.
    pub fn new(account: WhatsAppAccount) -> Result<Self, BadWhatsAppAccount> {
        let WhatsAppAccount { api, version, phone_number_id, token, template } = account;
        let is = |text: &str, of: fn(char) -> bool| !text.is_empty() && text.chars().all(of);
        let api = Url::parse(&api).ok().filter(|api| api.path() == "/" && api.query().is_none() && is_safe(api));
        let mut messages = api.ok_or(BadWhatsAppAccount::Api)?;
        let number = version.strip_prefix('v').ok_or(BadWhatsAppAccount::Version)?;
        if !is(number, |c| c.is_ascii_digit() || c == '.') {
            return Err(BadWhatsAppAccount::Version);
        }
        if !is(&phone_number_id, |c| c.is_ascii_digit()) {
            return Err(BadWhatsAppAccount::PhoneNumberId);
        }
        if !is(&template, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
            return Err(BadWhatsAppAccount::Template);
        }
        if !is(&token, |c| c.is_ascii_graphic()) {
            return Err(BadWhatsAppAccount::Token);
        }
        let mut token = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| BadWhatsAppAccount::Token)?;
        token.set_sensitive(true);
        messages.set_path(&format!("{version}/{phone_number_id}/messages"));
        let http = reqwest::Client::builder()
            .timeout(ATTEMPT_DEADLINE)
            .connect_timeout(CONNECT_DEADLINE)
            .redirect(Policy::none())
            .user_agent(concat!("svc-server/", env!("CARGO_PKG_VERSION")));
        // A token does not go to a proxy in clear.
        let http = if messages.scheme() == "http" { http.no_proxy() } else { http };
        // Its parts are constants, and the machine's certificate authorities are read when they are first needed.
        let http = http.build().map_err(|_| BadWhatsAppAccount::Api)?;
        Ok(Self { http, messages, token, template, pause: Mutex::default() })
    }

    /// How long nothing is to be sent, after a fault that every message would meet.
    pub(crate) fn pause(&self, clock: &Clock) -> Option<Duration> {
        let left = self.lock().until?.saturating_sub(clock.monotonic());
        (!left.is_zero()).then_some(left)
    }

    /// Sends a proposal's message. `suffix` is what the link has after `/confirmar/`.
    pub(crate) async fn send(&self, dados: &Dados, creditor: &str, suffix: &str, clock: &Clock) -> SendOutcome {
        let body = self.body(dados, creditor, suffix).to_string();
        let (status, answer) = match self.post(body).await {
            Ok(answered) => answered,
            Err(error) if error.is_timeout() && !error.is_connect() => {
                return SendOutcome::Failed("tempo_esgotado".into());
            }
            Err(_) => return SendOutcome::Failed(UNAVAILABLE.into()),
        };
        if (200..300).contains(&status) && answer.get("messages").is_some_and(Value::is_array) {
            self.resume();
            return taken(&answer);
        }
        self.refused(answer.get("error"), status, clock)
    }

    /// What a refusal means, whether it comes at once or as news; a fault of the account pauses the sender.
    fn refused(&self, error: Option<&Value>, status: u16, clock: &Clock) -> SendOutcome {
        let number = |name| error.and_then(|error| text_code(error.get(name)?));
        let code = number("code");
        let verdict = judge(code, number("error_subcode"), status);
        if verdict == Verdict::Pause {
            self.begin_pause(code, clock);
        }
        match verdict {
            Verdict::Again(motivo) => SendOutcome::Failed(motivo.into()),
            Verdict::Tomorrow(motivo) => SendOutcome::Postponed(motivo.into(), A_DAY),
            Verdict::Never(motivo) => SendOutcome::Refused(motivo.into()),
            Verdict::Pause => SendOutcome::Held("configuracao_do_canal".into(), PAUSE),
        }
    }

    /// Whether a fault of the account was met, and no message taken since.
    pub(crate) fn is_held(&self) -> bool {
        self.lock().said
    }

    async fn post(&self, body: String) -> reqwest::Result<(u16, Value)> {
        let request = self.http.post(self.messages.clone()).header(AUTHORIZATION, self.token.clone());
        let mut response = request.header("content-type", "application/json").body(body).send().await?;
        let (status, mut answer) = (response.status().as_u16(), Vec::new());
        while let Some(chunk) = response.chunk().await? {
            answer.extend_from_slice(&chunk);
            if answer.len() > MAX_ANSWER_BYTES {
                break;
            }
        }
        Ok((status, serde_json::from_slice(&answer).unwrap_or_default()))
    }

    fn body(&self, dados: &Dados, creditor: &str, suffix: &str) -> Value {
        let (valores, taxas, prazos) = (&dados.simulacao.valores, &dados.simulacao.taxas, &dados.simulacao.prazos);
        let valor = |valor: Option<svc_core::ValorPositivo>| valor.map(|valor| reais(valor.decimal()));
        let parameters = [
            Some(plain(dados.cliente.nome.first())),
            Some(plain(creditor)),
            valor(valores.as_ref().and_then(|valores| valores.solicitado)),
            prazos.as_ref().and_then(|prazos| prazos.total_parcelas).map(|n| n.get().to_string()),
            valor(valores.as_ref().and_then(|valores| valores.parcela)),
            taxas.as_ref().and_then(|taxas| taxas.cet_aa).map(|taxa| rate(taxa.decimal(), "a.a.")),
        ];
        let text = |text: String| json!({"type": "text", "text": text});
        let parameters = parameters.map(|parameter| {
            text(parameter.filter(|parameter| !parameter.is_empty()).unwrap_or_else(|| ABSENT.to_owned()))
        });
        json!({
            "messaging_product": "whatsapp",
            "recipient_type": "individual",
            "to": dados.cliente.whatsapp.as_str(),
            "type": "template",
            "template": {
                "name": self.template,
                "language": {"code": LANGUAGE},
                "components": [
                    {"type": "body", "parameters": parameters},
                    {"type": "button", "sub_type": "url", "index": "0", "parameters": [text(suffix.to_owned())]},
                ],
            },
        })
    }

    /// Said once and loudly, for the operator alone can mend it.
    fn begin_pause(&self, code: Option<i64>, clock: &Clock) {
        let mut pause = self.lock();
        pause.until = Some(clock.monotonic() + PAUSE);
        if !std::mem::replace(&mut pause.said, true) {
            tracing::error!(
                code,
                "WhatsApp refuses every message of this account: token, number, template or billing; none is sent until \
                 that is mended, and all are tried again"
            );
        }
    }

    fn resume(&self) {
        let mut pause = self.lock();
        pause.until = None;
        if std::mem::take(&mut pause.said) {
            tracing::info!("WhatsApp takes messages again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pause> {
        // Two values, each right without the other.
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for WhatsAppAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhatsAppAccount(***)")
    }
}

impl fmt::Debug for WhatsApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhatsApp(***)")
    }
}

const UNAVAILABLE: &str = "canal_indisponivel";

/// What a refusal means for the message. The words are stable: partners see them (C22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Again(&'static str),
    Tomorrow(&'static str),
    Never(&'static str),
    /// It is not this message's fault.
    Pause,
}

/// Meta's codes, by what is to be done. An answer without one is no answer of the API's, but of something on the way. Besides the
/// codes that C35 goes by, those of a number that is not there or not registered (33, 100 with 33, 131045, 133010) pause, and
/// the throttles of the whole Graph (17, 32, 613) wait.
fn judge(code: Option<i64>, subcode: Option<i64>, status: u16) -> Verdict {
    use Verdict::{Again, Never, Pause, Tomorrow};
    match code {
        None => Again(UNAVAILABLE),
        Some(100) if subcode == Some(33) => Pause,
        Some(33 | 131_045 | 133_010) => Pause,
        Some(17 | 32 | 613) => Again("limite_do_canal"),
        Some(1 | 2 | 131_000 | 131_016 | 131_057) => Again(UNAVAILABLE),
        Some(4 | 80_007 | 130_429 | 131_056) => Again("limite_do_canal"),
        Some(131_049 | 130_472) => Tomorrow("limite_do_destinatario"),
        Some(0 | 3 | 10 | 190 | 200..=299 | 368 | 131_005 | 131_031 | 131_042 | 131_048) => Pause,
        Some(132_001 | 132_007 | 132_015 | 132_016) => Pause,
        Some(131_026) => Never("destinatario_inalcancavel"),
        Some(131_047) => Never("conversa_encerrada"),
        Some(131_050) => Never("destinatario_nao_quer"),
        Some(131_021) => Never("destinatario_e_remetente"),
        Some(131_030) => Never("destinatario_nao_permitido"),
        Some(100 | 131_008 | 131_009 | 132_000 | 132_005 | 132_012) => Never("mensagem_invalida"),
        Some(_) if status == 429 => Again("limite_do_canal"),
        Some(_) if status >= 500 => Again(UNAVAILABLE),
        Some(_) => Never("recusada_pelo_canal"),
    }
}

/// An error's code, which comes as a number or as text.
fn text_code(code: &Value) -> Option<i64> {
    code.as_i64().or_else(|| code.as_str()?.trim().parse().ok())
}

/// What the API calls a message that it took. One that it does not name is taken nevertheless.
fn taken(answer: &Value) -> SendOutcome {
    let text = |list: &str, name: &str| Some(answer.get(list)?.get(0)?.get(name)?.as_str()?.to_owned());
    match text("messages", "id").filter(|id| is_id(id)) {
        Some(id) => SendOutcome::Taken(Envio { id, conta: text("contacts", "wa_id").filter(|conta| is_id(conta)) }),
        None => SendOutcome::Sent,
    }
}

/// Whether this can be an id of Meta's: what is stored and searched by has an end, and no odd bytes.
fn is_id(text: &str) -> bool {
    (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A text as a template takes it: on one line, without runs of blanks, and without what changes how the rest is read.
fn plain(text: &str) -> String {
    let hidden = |c: char| {
        matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}')
            || matches!(c, '\u{e0000}'..='\u{e007f}')
    };
    let visible: String = text.chars().filter(|c| !hidden(*c)).map(|c| if c.is_control() { ' ' } else { c }).collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A token travels in clear to this machine only.
fn is_safe(api: &Url) -> bool {
    let here = match api.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    api.scheme() == "https" || (api.scheme() == "http" && here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_on_one_line_and_hides_nothing() {
        for (text, seen) in [
            ("  Banco\n\tdo   Sul ", "Banco do Sul"),
            ("Ban\u{200b}co\u{202e}\u{feff} \u{2066}X", "Banco X"),
            ("\u{200d}\r\n\u{85}", ""),
            ("Crédito & Cia 🦆", "Crédito & Cia 🦆"),
        ] {
            assert_eq!(plain(text), seen);
        }
    }
}
