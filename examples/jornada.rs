//! The whole journey in one process: a partner's proposal, the customer's answer, the signed webhook.
//!
//! `cargo run -p svc-examples --bin jornada`

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use svc_client::webhook::{Notificacao, Secret, Verifier};
use svc_client::{Acao, Client, NovaProposta};
use svc_server::{Config, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_WEBHOOK_SECRET, Partners, Sender, run};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The service, on a free port of this machine. It hands us the customer's links instead of sending messages.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base_url = format!("http://{}", listener.local_addr()?);
    let (sender, mut links) = mpsc::unbounded_channel();
    let mut config = Config::homologacao(Partners::demonstration())?;
    config.sender = Sender::Channel(sender);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(run(listener, config, async { drop(stopped.await) }));
    println!("1. The service listens on {base_url}.");

    // The partner's receiver: verifies the raw body, and believes nothing else.
    let (receiver_url, mut notifications) = start_receiver(Verifier::new(&Secret::parse(DEMO_WEBHOOK_SECRET)?)).await?;
    println!("2. The partner listens for notifications on {receiver_url}.");

    let client = Client::builder(&base_url, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET).build()?;
    client.login().await?;
    println!("3. The partner {DEMO_CLIENT_ID} has logged in, and holds a token for an hour.");

    let proposta = NovaProposta::builder("PARC-12345")
        .nome("João da Silva Exemplo")
        .cpf("111.444.777-35")
        .whatsapp("5511900000018")
        .solicitado(2_000)
        .iof("42.93".parse::<svc_client::Decimal>()?)
        .parcela("211.29".parse::<svc_client::Decimal>()?)
        .total_parcelas(12)
        .webhook_url(receiver_url)
        .build()?;
    let created = client.create_proposta(&proposta).await?;
    println!("4. Proposal PARC-12345 is stored, and is {} to the service.", created.id_proposta_svc);

    let link = links.recv().await.ok_or("the customer was not told")?;
    println!("5. The customer gets a message with the link {link}.");

    let answer = client.simulate_answer(&created.id_proposta_svc, Acao::Aceitar).await?;
    println!("6. The customer accepts: {} at {}.", answer.status, answer.timestamp);

    let told = tokio::time::timeout(Duration::from_secs(20), notifications.recv()).await?.ok_or("no notification")?;
    println!("7. The partner is told, and the signature is right: {} is {:?}.", told.id_proposta_parceiro, told.status);

    let refused = client.simulate_answer(&created.id_proposta_svc, Acao::Recusar).await.unwrap_err();
    println!("8. The customer cannot change the answer any more: {refused}.");

    stop.send(()).map_err(|()| "the service had stopped")?;
    server.await??;
    println!("9. The service has stopped, with nothing left to deliver.");
    Ok(())
}

/// A receiver of webhooks as a partner would write it; what it believes comes out of the channel.
async fn start_receiver(verifier: Verifier) -> Result<(String, mpsc::UnboundedReceiver<Notificacao>), Box<dyn Error>> {
    let (believed, notifications) = mpsc::unbounded_channel();
    let receive = async |State((verifier, believed)): State<(Verifier, mpsc::UnboundedSender<_>)>,
                         headers: HeaderMap,
                         body: Bytes| {
        match verifier.parse(&headers, &body) {
            Ok(notificacao) => {
                // A real receiver stores it here, before it answers.
                let stored = believed.send(notificacao);
                if stored.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::SERVICE_UNAVAILABLE }
            }
            // The sender learns nothing of why.
            Err(error) => {
                eprintln!("refused: {error}");
                StatusCode::UNAUTHORIZED
            }
        }
    };
    let app = Router::new().route("/webhook", post(receive)).with_state((verifier, believed));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/webhook", listener.local_addr()?);
    tokio::spawn(async { axum::serve(listener, app).await });
    Ok((url, notifications))
}
