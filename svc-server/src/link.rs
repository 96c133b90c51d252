//! The customer's link (C14, C16, C21), and the name under which a proposal appears in logs (C39).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use svc_core::{Perfil, PropostaId};

use crate::key::ServerKey;

/// Bytes of a link key: 144 bits, 24 characters.
const LINK_KEY_BYTES: usize = 18;

/// Makes links and checks their keys. Nothing of it is stored: the key is derived from the proposal's id.
#[derive(Debug)]
pub(crate) struct Links {
    base_url: String,
    perfil: Perfil,
    link: Hmac<Sha256>,
    log: Hmac<Sha256>,
}

impl Links {
    pub(crate) fn new(base_url: &str, perfil: Perfil, key: &ServerKey) -> Self {
        Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            perfil,
            link: derive(key, b"svc-server/link/v1"),
            log: derive(key, b"svc-server/log/v1"),
        }
    }

    /// The link of the customer's message; it shows the page and answers nothing.
    pub(crate) fn of(&self, id: PropostaId) -> String {
        format!("{}/confirmar/{}", self.base_url, self.suffix(id))
    }

    /// What stands behind `/confirmar/` in it.
    pub(crate) fn suffix(&self, id: PropostaId) -> String {
        match self.perfil {
            Perfil::Homologacao => id.to_string(),
            Perfil::Producao => format!("{id}?chave={}", self.key(id)),
        }
    }

    /// Whether a request holds the key that its profile asks for; the partner, who knows the id, does not have it.
    pub(crate) fn admits(&self, id: PropostaId, chave: Option<&str>) -> bool {
        match self.perfil {
            Perfil::Homologacao => true,
            Perfil::Producao => chave.is_some_and(|chave| chave.as_bytes().ct_eq(self.key(id).as_bytes()).into()),
        }
    }

    /// What a log says of a proposal.
    pub(crate) fn log_name(&self, id: PropostaId) -> String {
        match self.perfil {
            Perfil::Homologacao => id.to_string(),
            Perfil::Producao => digest::<6>(&self.log, id),
        }
    }

    fn key(&self, id: PropostaId) -> String {
        digest::<LINK_KEY_BYTES>(&self.link, id)
    }
}

fn derive(key: &ServerKey, label: &[u8]) -> Hmac<Sha256> {
    let new = |key: &[u8]| Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    new(&new(key.bytes()).chain_update(label).finalize().into_bytes())
}

fn digest<const N: usize>(key: &Hmac<Sha256>, id: PropostaId) -> String {
    let mac = key.clone().chain_update(id.as_bytes()).finalize().into_bytes();
    URL_SAFE_NO_PAD.encode(&mac[..N])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c16_a_link_key_opens_its_own_proposal_in_production() {
        let key = ServerKey::new(vec![7; 32]).unwrap();
        let links = Links::new("https://svc.example/", Perfil::Producao, &key);
        let (id, other) = (PropostaId::from_random([1; 16]), PropostaId::from_random([2; 16]));
        let link = links.of(id);
        let (address, chave) = link.split_once("?chave=").unwrap();
        assert_eq!(address, format!("https://svc.example/confirmar/{id}"));
        assert_eq!(chave.len(), 24);
        assert!(links.admits(id, Some(chave)));
        for (id, chave) in [(other, Some(chave)), (id, None), (id, Some("")), (id, Some(&chave[1..]))] {
            assert!(!links.admits(id, chave));
        }
        assert!(!links.log_name(id).contains(&id.to_string()));
        let test = Links::new("http://127.0.0.1:8080", Perfil::Homologacao, &key);
        assert_eq!(test.of(id), format!("http://127.0.0.1:8080/confirmar/{id}"));
        assert!(test.admits(id, None));
    }
}
