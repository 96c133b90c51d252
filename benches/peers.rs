//! A delivery of the service, believed unchanged by the libraries of others that are measured here (W2).

use http::HeaderMap;
use svc_client::NovaProposta;
use svc_server::fake::{Fake, Webhook, WebhookFault};

fn headers(webhook: &Webhook) -> HeaderMap {
    webhook.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

#[tokio::test]
async fn w02_svix_and_standardwebhooks_believe_our_delivery_unchanged() {
    let fake = Fake::start();
    let proposta = NovaProposta::builder("ação 😊").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018");
    let proposta = proposta.webhook_url("https://parceiro.example.com/webhooks/svc").build().unwrap();
    let created = fake.client().create_proposta(&proposta).await.unwrap();
    let webhook = fake.accept(&created.id_proposta_svc).await.unwrap();
    let svix = svix::webhooks::Webhook::new(fake.webhook_secret()).unwrap();
    let standard = standardwebhooks::Webhook::new(fake.webhook_secret()).unwrap();
    svix.verify(&webhook.body, &headers(&webhook)).unwrap();
    standard.verify(&webhook.body, &headers(&webhook)).unwrap();
    for fault in [WebhookFault::WrongSignature, WebhookFault::AlteredBody, WebhookFault::StaleTimestamp] {
        let spoiled = webhook.clone().with(fault);
        assert!(svix.verify(&spoiled.body, &headers(&spoiled)).is_err(), "{fault:?}");
        assert!(standard.verify(&spoiled.body, &headers(&spoiled)).is_err(), "{fault:?}");
    }
}
