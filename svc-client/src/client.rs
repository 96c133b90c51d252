//! The client: a few calls, each with its path, its body, and whether it may be repeated.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use svc_core::{Acao, Confirmacao, IdParceiro, NovaProposta, PropostaId, PropostaRecebida, Situacao};

use crate::answer::Answer;
use crate::builder::ClientBuilder;
use crate::call::{Call, Caller, Effect};
use crate::error::{Error, Result};
use crate::secret::ClientSecret;

/// Calls the service for one partner. Cheap to clone; clones share token, connections and budget.
///
/// Nothing runs behind it: a call that is dropped stops where it is, and is not made again.
#[derive(Clone)]
pub struct Client(Arc<Caller>);

impl Client {
    pub(crate) fn new(caller: Caller) -> Self {
        Self(Arc::new(caller))
    }

    /// Begins a client for a service and a partner's credentials.
    ///
    /// ```
    /// use svc_client::{Client, ErrorKind};
    /// assert!(Client::builder("https://propostas.example.com", "parceiro", "segredo").build().is_ok());
    /// assert!(Client::builder("http://127.0.0.1:8080", "parceiro", "segredo").build().is_ok());
    ///
    /// let error = Client::builder("http://propostas.example.com", "parceiro", "segredo").build().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Config); // a token in clear, to another machine
    /// ```
    pub fn builder(
        base_url: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: impl Into<ClientSecret>,
    ) -> ClientBuilder {
        ClientBuilder::new(base_url.into(), client_id.into(), client_secret.into())
    }

    /// A client by the environment: `SVC_BASE_URL`, `SVC_CLIENT_ID` and `SVC_CLIENT_SECRET`, all else as in
    /// [`defaults`](crate::defaults).
    ///
    /// ```
    /// # if std::env::var_os("SVC_BASE_URL").is_none() {
    /// let error = svc_client::Client::from_env().unwrap_err(); // nothing is set
    /// assert_eq!(error.to_string(), "request was not sent: SVC_BASE_URL is not set");
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::from_env`] and [`ClientBuilder::build`].
    pub fn from_env() -> Result<Self> {
        ClientBuilder::from_env()?.build()
    }

    /// Logs in, if there is no token yet. Other calls do that by themselves; this one shows early that it works.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Login`](crate::ErrorKind::Login) where the service answers with an error, 401 for refused credentials;
    /// and what can happen to every request.
    pub async fn login(&self) -> Result<()> {
        self.0.log_in().await
    }

    /// Posts a proposal (interface 4.2).
    ///
    /// It is posted again by itself only where that cannot make a second one, see [`retry`](crate::retry).
    ///
    /// ```no_run
    /// # async fn example(client: svc_client::Client, proposta: svc_client::NovaProposta) {
    /// use svc_client::Outcome;
    /// match client.create_proposta(&proposta).await {
    ///     Ok(answer) => println!("{}", answer.id_proposta_svc),
    ///     Err(error) => match error.outcome() {
    ///         Outcome::NotSent | Outcome::Rejected => println!("nothing was stored: {error}"),
    ///         // Ask with proposta_by_partner_id, or post the same id again. Never a new one.
    ///         _ => println!("it may exist: {error}"),
    ///     },
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::violations`] lists all that the service refuses it for; [`Error::outcome`] tells whether it may exist.
    pub async fn create_proposta(&self, proposta: &NovaProposta) -> Result<Answer<PropostaRecebida>> {
        let call = Call {
            body: Bytes::from(proposta.to_json()),
            effect: Effect::Creates,
            ..Call::new(Method::POST, "/v1/propostas", "/v1/propostas".to_owned())
        };
        self.0.call(&call).await
    }

    /// Asks how a proposal fares (C19, C22).
    ///
    /// ```no_run
    /// # async fn example(client: svc_client::Client) -> svc_client::Result<()> {
    /// let situacao = client.proposta("07070707-0707-4707-8707-070707070707").await?;
    /// if situacao.status == "ACEITO" {
    ///     println!("accepted at {:?}", situacao.respondida_em);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a text that is no id of the service, without a request; status
    /// 404 for one that is not this partner's.
    pub async fn proposta(&self, id_proposta_svc: &str) -> Result<Answer<Situacao>> {
        let path = format!("/v1/propostas/{}", id(id_proposta_svc)?);
        self.0.call(&Call::new(Method::GET, "/v1/propostas/{id_proposta_svc}", path)).await
    }

    /// The same by the partner's own id: what to ask after [`Outcome::Unknown`](crate::Outcome::Unknown).
    ///
    /// Status 404 then says that the proposal does not exist *yet*: the request that broke may still be on its way. Post
    /// the same proposal again rather than wait.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a text that can be no id (C3), without a request; status 404 for
    /// an id that this partner has not used.
    pub async fn proposta_by_partner_id(&self, id_proposta_parceiro: &str) -> Result<Answer<Situacao>> {
        let id = IdParceiro::new(id_proposta_parceiro)
            .map_err(|_| Error::config("not an id that a partner can have given"))?;
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("id_proposta_parceiro", id.as_str())
            .finish();
        self.0.call(&Call::new(Method::GET, "/v1/propostas", format!("/v1/propostas?{query}"))).await
    }

    /// Has the notification of an answered proposal sent again, under the same event id (C19).
    ///
    /// # Errors
    ///
    /// As [`proposta`](Self::proposta); and [`ErrorKind::Conflict`](crate::ErrorKind::Conflict),
    /// `proposta_sem_resposta`, while there is nothing to be told.
    pub async fn resend_webhook(&self, id_proposta_svc: &str) -> Result<Answer<Situacao>> {
        let path = format!("/v1/propostas/{}/reenviar-webhook", id(id_proposta_svc)?);
        let call = Call::new(Method::POST, "/v1/propostas/{id_proposta_svc}/reenviar-webhook", path);
        self.0.call(&Call { effect: Effect::Harmless, ..call }).await
    }

    /// Answers in the customer's place, as only a test environment allows (interface 4.3).
    ///
    /// ```no_run
    /// # async fn example(client: svc_client::Client) -> svc_client::Result<()> {
    /// use svc_client::Acao;
    /// let answer = client.simulate_answer("07070707-0707-4707-8707-070707070707", Acao::Aceitar).await?;
    /// assert_eq!(answer.status, "ACEITO");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`proposta`](Self::proposta); and [`ErrorKind::Conflict`](crate::ErrorKind::Conflict), `proposta_ja_respondida`,
    /// for a proposal with the other answer.
    pub async fn simulate_answer(&self, id_proposta_svc: &str, acao: Acao) -> Result<Answer<Confirmacao>> {
        let path = format!("/confirmar/{}?acao={acao}", id(id_proposta_svc)?);
        let call = Call::new(Method::GET, "/confirmar/{id_proposta_svc}", path);
        self.0.call(&Call { authorized: false, effect: Effect::Harmless, ..call }).await
    }
}

impl Call {
    /// With a token, without a body, and without effect.
    fn new(method: Method, route: &'static str, path: String) -> Self {
        Self { method, route, path, body: Bytes::new(), authorized: true, effect: Effect::None }
    }
}

/// The service's ids have one spelling (C8); nothing else gets into a path.
fn id(text: &str) -> Result<PropostaId> {
    PropostaId::parse(text).ok_or_else(|| Error::config("not an id of this service"))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caller { base_url, client_id, .. } = &*self.0;
        f.debug_struct("Client").field("base_url", base_url).field("client_id", client_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_small_enough_to_be_moved_about() {
        let client = Client::builder("http://127.0.0.1:1", "p", "segredo").build().unwrap();
        let nova = NovaProposta::builder("P").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018");
        let nova = nova.webhook_url("https://example.com/").build().unwrap();
        // A task has room for all that it can come to wait for, and a move copies that.
        assert!(size_of_val(&client.create_proposta(&nova)) <= 2_048);
        assert!(size_of_val(&client.login()) <= 2_048);
    }
}
