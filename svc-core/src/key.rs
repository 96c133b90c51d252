//! HMAC-SHA256 under a key of any length (RFC 2104, FIPS 180-4).

use hmac::KeyInit;
use hmac::block_api::HmacCore;
use hmac::digest::Key as Block;
use hmac::digest::block_api::{Buffer, FixedOutputCore, UpdateCore};
use sha2::{Digest, Sha256};

/// The hash's block, to which keys are padded.
const BLOCK: usize = 64;

/// A key that is taken in: half of the work on a short message is done here, once.
#[derive(Clone)]
pub(crate) struct Key(HmacCore<Sha256>);

impl Key {
    pub(crate) fn new(key: &[u8]) -> Self {
        // RFC 2104: a longer key is its own hash; padded to the block it cannot have a wrong length.
        let mut block = zeroize::Zeroizing::new([0; BLOCK]);
        if key.len() <= BLOCK {
            block.iter_mut().zip(key).for_each(|(place, byte)| *place = *byte);
        } else {
            block.iter_mut().zip(Sha256::digest(key)).for_each(|(place, byte)| *place = byte);
        }
        Self(HmacCore::new(&Block::<HmacCore<Sha256>>::from(*block)))
    }

    /// The MAC over the parts in a row. By blocks, since the hasher that takes any bytes copies its buffer with the key, which
    /// costs a short message a sixth of its time.
    pub(crate) fn mac<const N: usize>(&self, parts: [&[u8]; N]) -> [u8; 32] {
        let (mut core, mut buffer) = (self.0.clone(), Buffer::<HmacCore<Sha256>>::default());
        for part in parts {
            buffer.digest_blocks(part, |blocks| core.update_blocks(blocks));
        }
        let mut mac = Default::default();
        core.finalize_fixed_core(&mut buffer, &mut mac);
        mac.into()
    }
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, Mac};

    use super::*;

    #[test]
    fn the_library_s_own_hmac_says_the_same_of_every_length_and_cut() {
        let bytes: Vec<u8> = (0..=200).collect();
        let expected = |key, message| -> [u8; 32] {
            Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(message).finalize().into_bytes().into()
        };
        for length in 0..bytes.len() {
            let (key, message) = (&bytes[..length], &bytes[..]);
            assert_eq!(Key::new(key).mac([message]), expected(key, message), "a key of {length}");
            let (key, message) = (Key::new(b"key"), &bytes[..length]);
            for cut in 0..=length {
                let (before, behind) = message.split_at(cut);
                assert_eq!(key.mac([before, behind]), expected(b"key", message), "{length} cut at {cut}");
            }
        }
    }
}
