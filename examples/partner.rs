//! A partner's program: posts the proposal of a JSON file, and waits until the customer has answered.
//!
//! With the service running (`cargo run`), and one of the receivers beside this file if you like:
//!
//! ```sh
//! export SVC_BASE_URL=http://127.0.0.1:8080 SVC_CLIENT_ID=parceiro-demo SVC_CLIENT_SECRET=segredo-demo
//! cargo run -p svc-examples --bin partner -- examples/proposta.json
//! ```
//!
//! [tests_with_fake.rs](tests_with_fake.rs) tests the two functions of this file without a network.
//!
//! The service's terminal shows the customer's link: open it, and answer. Against the real service only the three
//! variables are others.

use std::process::ExitCode;
use std::time::Duration;

use svc_client::{Client, Error, ErrorKind, NovaProposta, Outcome, Situacao};

/// How often it is asked whether the customer has answered. A webhook says so at once; asking is for programs that nobody
/// can call.
const POLL: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: partner FILE.json");
        return ExitCode::from(64);
    };
    match run(&file).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(file: &str) -> Result<(), Box<dyn std::error::Error>> {
    // One client for the whole program: it keeps the token and the connections. Clones are cheap.
    let client = Client::from_env()?;
    // The same checks as the service's, before anything is sent, and all violations at once.
    let proposta = NovaProposta::from_json_to_send(&std::fs::read(file)?)?;
    let id = create(&client, &proposta).await?;
    println!("{} is {id} to the service; waiting for the customer", proposta.id_proposta_parceiro());
    let answered = answer(&client, &id).await?;
    println!("{} is {}", answered.id_proposta_parceiro, answered.status);
    Ok(())
}

/// Posts a proposal once, whatever happens on the way. Gives the service's id.
///
/// The client itself tries again where that does no harm. What is left to its caller is in the error's
/// [`outcome`](Error::outcome).
pub(crate) async fn create(client: &Client, proposta: &NovaProposta) -> Result<String, Error> {
    let error = match client.create_proposta(proposta).await {
        Ok(created) => return Ok(created.into_body().id_proposta_svc),
        Err(error) => error,
    };
    match error.outcome() {
        // The service has it, or may have it: ask, by our own id. Never post it under a new one.
        Outcome::Unknown | Outcome::Accepted => {
            let found = client.proposta_by_partner_id(proposta.id_proposta_parceiro().as_str()).await;
            match found {
                Ok(found) => Ok(found.into_body().id_proposta_svc),
                // Not found is no proof: it may still be on its way. The next run posts it again, under the same id.
                Err(_) => Err(error),
            }
        }
        // Refused, or not even sent: nothing happened at the service, and the error says what to put right.
        _ => {
            for violation in error.violations() {
                eprintln!("{}: {} ({})", violation.propriedade, violation.razao, violation.codigo);
            }
            if error.kind() == ErrorKind::Conflict {
                eprintln!("this id_proposta_parceiro belongs to another proposal; number yours anew");
            }
            Err(error)
        }
    }
}

/// Waits for the customer.
pub(crate) async fn answer(client: &Client, id: &str) -> Result<Situacao, Error> {
    loop {
        match client.proposta(id).await {
            Ok(now) if now.status != "AGUARDANDO_RESPOSTA" => return Ok(now.into_body()),
            Ok(_) => {}
            // Away for a while: the customer takes longer than that.
            Err(error) if error.is_retryable() => eprintln!("asking again: {error}"),
            Err(error) => return Err(error),
        }
        tokio::time::sleep(POLL).await;
    }
}
