//! HMAC-SHA256 under a key of any length (RFC 2104, FIPS 180-4).

use hmac::digest::Key;
use hmac::{Hmac, KeyInit};
use sha2::{Digest, Sha256};

/// The hash's block, to which keys are padded.
const BLOCK: usize = 64;

/// A MAC with the key taken in, to be cloned for each message: half of the work of a short message is done here, once.
pub(crate) fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // RFC 2104: a longer key is its own hash; padded to the block it cannot have a wrong length.
    let mut block = zeroize::Zeroizing::new([0; BLOCK]);
    if key.len() <= BLOCK {
        block.iter_mut().zip(key).for_each(|(place, byte)| *place = *byte);
    } else {
        block.iter_mut().zip(Sha256::digest(key)).for_each(|(place, byte)| *place = byte);
    }
    Hmac::new(&Key::<Hmac<Sha256>>::from(*block))
}
