//! Test data of others, read where the variable `SVC_VECTORS` names its folder. A run without it says what it left out,
//! and fails in CI.

use std::fs;
use std::path::PathBuf;

/// A folder or file of the collection; `None`, and a line on stderr, where there is no collection.
pub(crate) fn vectors(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("SVC_VECTORS") else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI reads all vectors, and SVC_VECTORS is not set");
        eprintln!("left out: SVC_VECTORS is not set, so nothing was read of {name}");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    assert!(path.exists(), "SVC_VECTORS has no {name}");
    Some(path)
}

pub(crate) fn json(name: &str) -> Option<serde_json::Value> {
    Some(serde_json::from_slice(&fs::read(vectors(name)?).unwrap()).unwrap())
}

pub(crate) fn hex(text: &serde_json::Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
