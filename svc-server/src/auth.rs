//! Access tokens (C24, C25): issued at login, checked before a body is read.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use jsonwebtoken::crypto::aws_lc;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use svc_core::{Perfil, TOKEN_LIFE_SECONDS};

use crate::key::ServerKey;

/// A longer token is refused unread.
const MAX_TOKEN_BYTES: usize = 4 * 1024;
/// RFC 9068.
const TYPE: &str = "at+jwt";
const ISSUER: &str = "svc";

/// Issues and checks tokens for one profile, by one key and perhaps the one before it.
pub(crate) struct Tokens {
    current: TokenKey,
    previous: Option<TokenKey>,
    audience: String,
    verified: Verified,
}

struct TokenKey {
    kid: String,
    encoding: EncodingKey,
    decoding: DecodingKey,
}

/// Why a request has no partner (C25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Absent,
    Invalid,
    Expired,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: String,
    iat: i64,
    exp: i64,
    jti: String,
}

impl Tokens {
    pub(crate) fn new(perfil: Perfil, current: &ServerKey, previous: Option<&ServerKey>) -> Self {
        // Another crate in the user's build may have chosen already: theirs will do.
        let _ = aws_lc::DEFAULT_PROVIDER.install_default();
        Self {
            current: TokenKey::new(current),
            previous: previous.map(TokenKey::new),
            audience: format!("svc:{perfil}"),
            verified: Verified::default(),
        }
    }

    /// A token for a partner that has just proved who it is.
    pub(crate) fn issue(
        &self,
        client_id: &str,
        jti: [u8; 16],
        now: DateTime<Utc>,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let header =
            Header { typ: Some(TYPE.to_owned()), kid: Some(self.current.kid.clone()), ..Header::new(Algorithm::HS256) };
        let iat = now.timestamp();
        let claims = Claims {
            iss: ISSUER.to_owned(),
            aud: self.audience.clone(),
            sub: client_id.to_owned(),
            iat,
            exp: iat.saturating_add(i64::from(TOKEN_LIFE_SECONDS)),
            jti: URL_SAFE_NO_PAD.encode(jti),
        };
        jsonwebtoken::encode(&header, &claims, &self.current.encoding)
    }

    /// The partner's id in the `Authorization` header, of which there may be one.
    pub(crate) fn check<'h>(
        &self,
        authorization: impl IntoIterator<Item = &'h [u8]>,
        now: DateTime<Utc>,
    ) -> Result<Arc<str>, Refused> {
        let mut authorization = authorization.into_iter();
        let token = bearer(authorization.next().ok_or(Refused::Absent)?).ok_or(Refused::Absent)?;
        if authorization.next().is_some() {
            return Err(Refused::Invalid);
        }
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Refused::Invalid);
        }
        let Known { sub, exp } = match self.verified.get(token) {
            Some(known) => known,
            None => self.verify(token, now)?,
        };
        if now.timestamp() >= exp { Err(Refused::Expired) } else { Ok(sub) }
    }

    /// What a token says, if we have signed it for here.
    fn verify(&self, token: &str, now: DateTime<Utc>) -> Result<Known, Refused> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| Refused::Invalid)?;
        let plain = header.alg == Algorithm::HS256
            && header.typ.as_deref() == Some(TYPE)
            && header.crit.is_none()
            && (&header.jku, &header.jwk, &header.x5u, &header.x5c, &header.x5t, &header.x5t_s256)
                == (&None, &None, &None, &None, &None, &None);
        let key = [Some(&self.current), self.previous.as_ref()]
            .into_iter()
            .flatten()
            .find(|key| header.kid.as_deref() == Some(&key.kid));
        let (true, Some(key)) = (plain, key) else { return Err(Refused::Invalid) };
        // The library's own checks have a leeway, pass the last second and read the system's clock: only its signature
        // check is used.
        let mut validation = Validation::new(Algorithm::HS256);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let claims =
            jsonwebtoken::decode::<Claims>(token, &key.decoding, &validation).map_err(|_| Refused::Invalid)?.claims;
        if claims.iss != ISSUER || claims.aud != self.audience {
            return Err(Refused::Invalid);
        }
        let known = Known { sub: claims.sub.into(), exp: claims.exp };
        if now.timestamp() < known.exp {
            self.verified.put(token, &known, now);
        }
        Ok(known)
    }
}

/// Of a token whose signature is right.
#[derive(Clone)]
struct Known {
    sub: Arc<str>,
    exp: i64,
}

/// Tokens whose signatures have been looked at, which is half of the work on a small request. What can change is looked at each
/// time: the clock here, and by the caller whether there is such a partner still. Keys stay as they are while a server runs.
#[derive(Default)]
struct Verified(Mutex<HashMap<String, Known>>);

impl Verified {
    /// A partner needs one token, and one more while it renews that.
    const MAX: usize = 1_024;

    fn get(&self, token: &str) -> Option<Known> {
        self.lock().get(token).cloned()
    }

    fn put(&self, token: &str, known: &Known, now: DateTime<Utc>) {
        let mut verified = self.lock();
        if verified.len() >= Self::MAX {
            verified.retain(|_, known| now.timestamp() < known.exp);
        }
        if verified.len() >= Self::MAX {
            verified.clear();
        }
        verified.insert(token.to_owned(), known.clone());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        // Each entry is whole, whoever has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

impl TokenKey {
    fn new(key: &ServerKey) -> Self {
        let digest = Sha256::digest(key.bytes());
        Self {
            kid: digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect(),
            encoding: EncodingKey::from_secret(key.bytes()),
            decoding: DecodingKey::from_secret(key.bytes()),
        }
    }
}

/// The token of a bearer header; another scheme counts as no credentials. The scheme's case does not matter (RFC 9110).
fn bearer(authorization: &[u8]) -> Option<&str> {
    let text = str::from_utf8(authorization).ok()?.trim();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> ServerKey {
        ServerKey::new(vec![byte; 32]).unwrap()
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn tokens() -> Tokens {
        Tokens::new(Perfil::Homologacao, &key(1), None)
    }

    fn header(token: &str) -> Vec<u8> {
        format!("Bearer {token}").into_bytes()
    }

    #[test]
    fn f17_a_token_lives_to_its_last_second_and_no_further() {
        let token = header(&tokens().issue("p", [1; 16], at(1_000)).unwrap());
        assert_eq!(tokens().check([&token[..]], at(1_000 + 3_599)), Ok("p".into()));
        assert_eq!(tokens().check([&token[..]], at(1_000 + 3_600)), Err(Refused::Expired));
        assert_eq!(tokens().check([&token[..]], at(1_000 + 3_601)), Err(Refused::Expired));
    }

    #[test]
    fn f16_a_token_of_another_making_is_invalid() {
        let good = tokens().issue("p", [1; 16], at(0)).unwrap();
        let check = |token: &str| tokens().check([&header(token)[..]], at(1));
        assert_eq!(check(&good), Ok("p".into()));
        let forged = |header: &str, claims: &str| {
            let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
            let message = format!("{}.{}", part(header), part(claims));
            let signature =
                jsonwebtoken::crypto::sign(message.as_bytes(), &EncodingKey::from_secret(&[1; 32]), Algorithm::HS256);
            format!("{message}.{}", signature.unwrap())
        };
        let kid = tokens().current.kid;
        let head = format!(r#"{{"alg":"HS256","typ":"at+jwt","kid":"{kid}"}}"#);
        let claims = r#"{"iss":"svc","aud":"svc:homologacao","sub":"p","iat":0,"exp":3600,"jti":"x"}"#;
        assert_eq!(check(&forged(&head, claims)), Ok("p".into()), "the forger has the key");
        for (old, new) in [
            ("HS256", "none"),
            ("HS256", "HS384"),
            ("HS256", "RS256"),
            ("at+jwt", "JWT"),
            (&kid, "00000000"),
            ("\"kid\"", "\"crit\":[\"x\"],\"kid\""),
            ("\"kid\"", "\"jku\":\"https://example.com\",\"kid\""),
            ("\"kid\"", "\"jwk\":{\"kty\":\"oct\",\"k\":\"AQ\"},\"kid\""),
        ] {
            assert_eq!(check(&forged(&head.replace(old, new), claims)), Err(Refused::Invalid), "{new}");
        }
        for (old, new) in [
            ("\"svc\"", "\"other\""),
            ("svc:homologacao", "svc:producao"),
            ("3600", "\"3600\""),
            (",\"exp\":3600", ""),
            ("\"sub\":\"p\",", ""),
        ] {
            assert_eq!(check(&forged(&head, &claims.replace(old, new))), Err(Refused::Invalid), "{new}");
        }
        let mut parts = good.split('.').map(str::to_owned).collect::<Vec<_>>();
        let other = if parts[2].starts_with('A') { "B" } else { "A" };
        parts[2].replace_range(..1, other);
        for bad in [&parts.join("."), &format!("{good}.x"), "", "a.b", &"x".repeat(5 * 1024)] {
            assert_eq!(check(bad), Err(Refused::Invalid), "{bad}");
        }
        let other_key = Tokens::new(Perfil::Homologacao, &key(2), None).issue("p", [1; 16], at(0)).unwrap();
        assert_eq!(check(&other_key), Err(Refused::Invalid));
    }

    #[test]
    fn a_token_that_was_verified_is_held_to_its_time_and_to_every_byte() {
        let tokens = tokens();
        let good = tokens.issue("p", [1; 16], at(0)).unwrap();
        let check = |token: &str, now| tokens.check([&header(token)[..]], at(now));
        for _ in 0..2 {
            assert_eq!(check(&good, 3_599), Ok("p".into()));
            assert_eq!(check(&good, 3_600), Err(Refused::Expired));
            for (at, byte) in good.char_indices() {
                let mut other = good.clone();
                other.replace_range(at..=at, if byte == 'A' { "B" } else { "A" });
                assert_eq!(check(&other, 1), Err(Refused::Invalid), "{at}");
            }
        }
        assert_eq!(tokens.verified.lock().len(), 1, "what is refused is not kept");
    }

    #[test]
    fn however_many_tokens_are_verified_few_are_kept() {
        let tokens = tokens();
        let issue = |number: u32, now| {
            let mut jti = [0; 16];
            jti[..4].copy_from_slice(&number.to_be_bytes());
            tokens.issue("p", jti, at(now)).unwrap()
        };
        for number in 0..3_000 {
            // The first half has expired when the second comes.
            let now = if number < 1_500 { 0 } else { 4_000 };
            assert_eq!(tokens.check([&header(&issue(number, now))[..]], at(now)), Ok("p".into()));
            assert!(tokens.verified.lock().len() <= Verified::MAX);
        }
        assert_eq!(tokens.verified.lock().len(), 3_000 - 1_500 - Verified::MAX, "full once, and begun anew");
    }

    #[test]
    fn f15_no_bearer_credentials_are_no_credentials() {
        for absent in [None, Some(&b"Basic dTpw"[..]), Some(b"Token x"), Some(b""), Some(b"\xff")] {
            assert_eq!(tokens().check(absent, at(1)), Err(Refused::Absent));
        }
        let token = tokens().issue("p", [1; 16], at(0)).unwrap();
        assert_eq!(tokens().check([format!("bearer  {token} ").as_bytes()], at(1)), Ok("p".into()));
        assert_eq!(tokens().check([&b"Bearer"[..]], at(1)), Err(Refused::Invalid));
    }

    #[test]
    fn a_token_outlives_the_rotation_of_its_key_by_one() {
        let token = header(&tokens().issue("p", [1; 16], at(0)).unwrap());
        let rotated = Tokens::new(Perfil::Homologacao, &key(2), Some(&key(1)));
        assert_eq!(rotated.check([&token[..]], at(1)), Ok("p".into()));
        let gone = Tokens::new(Perfil::Homologacao, &key(3), Some(&key(2)));
        assert_eq!(gone.check([&token[..]], at(1)), Err(Refused::Invalid));
    }
}
