//! The examples are programs; this file only lets the READMEs' Rust be compiled with the tests.

#[doc = include_str!("../README.md")]
#[doc = include_str!("../svc-core/README.md")]
mod readmes {}
