//! Every payload beside this test gives exactly what its index says, in both profiles.

use std::fs;
use std::path::PathBuf;

use svc_core::{NovaProposta, Perfil, Policy};

use crate::lines;

fn read(file: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/proposals").join(file);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn verdict(body: &[u8], perfil: Perfil) -> Result<NovaProposta, Vec<String>> {
    crate::read(body, &Policy::new(perfil)).map_err(|found| found.iter().map(|line| place(line)).collect())
}

/// Pointer and code of a line; the index names neither rules nor positions.
fn place(line: &str) -> String {
    let words: Vec<_> = line.split(' ').take(2).collect();
    words.join(" ")
}

fn places(nova: &NovaProposta) -> Vec<String> {
    lines(nova.avisos()).iter().map(|line| place(line)).collect()
}

/// The index's rows whose first cell names a file in this folder.
fn rows(folder: &str) -> Vec<(String, Vec<String>)> {
    let index = String::from_utf8(read("INDEX.md")).unwrap();
    let mut rows = Vec::new();
    for line in index.lines().filter(|line| line.contains(".json |")) {
        let cells: Vec<_> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
        let path = format!("{folder}/{}", cells[0]);
        if PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/proposals").join(&path).exists() {
            rows.push((path, cells));
        }
    }
    let files = fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/proposals").join(folder)).unwrap();
    assert_eq!(rows.len(), files.count(), "the index names each file of {folder} once");
    rows
}

#[test]
fn every_valid_file_is_accepted_where_the_index_says_and_gives_no_aviso() {
    for (file, cells) in rows("valid") {
        let body = read(&file);
        let homologacao = verdict(&body, Perfil::Homologacao).unwrap_or_else(|found| panic!("{file}: {found:?}"));
        match (cells[1].as_str(), verdict(&body, Perfil::Producao)) {
            ("both", Ok(producao)) => {
                assert_eq!(homologacao.avisos(), [], "{file}");
                assert_eq!(producao.avisos(), [], "{file}");
            }
            ("homologacao only", Err(refused)) => assert_eq!(places(&homologacao), refused, "{file}"),
            (_, verdict) => panic!("{file}: {verdict:?}"),
        }
    }
}

#[test]
fn every_invalid_file_gives_exactly_the_index_s_pointer_and_code() {
    for (file, cells) in rows("invalid") {
        let body = read(&file);
        let pointer = if cells[1] == "(raiz)" { "body" } else { &cells[1] };
        let expected = vec![format!("{pointer} {}", cells[2])];
        assert_eq!(verdict(&body, Perfil::Producao).unwrap_err(), expected, "{file} in producao");
        match (cells[4].as_str(), verdict(&body, Perfil::Homologacao)) {
            ("both", Err(found)) => assert_eq!(found, expected, "{file} in homologacao"),
            ("producao", Ok(nova)) => assert_eq!(places(&nova), expected, "{file} in homologacao"),
            (_, verdict) => panic!("{file}: {verdict:?}"),
        }
    }
}

#[test]
fn the_walkthrough_lacks_three_fields_in_producao() {
    let body = read("valid/walkthrough.json");
    assert_eq!(
        verdict(&body, Perfil::Producao).unwrap_err(),
        [
            "/data_solicitacao campo_obrigatorio",
            "/simulacao/taxas/nominal_am campo_obrigatorio",
            "/simulacao/prazos/data_liberacao_estimada campo_obrigatorio",
        ]
    );
}

#[test]
fn what_is_written_is_read_back_as_the_same_proposal() {
    for (file, _) in rows("valid") {
        let first = verdict(&read(&file), Perfil::Homologacao).unwrap();
        let second = verdict(&first.to_json(), Perfil::Homologacao).unwrap();
        assert_eq!(first.to_json(), second.to_json(), "{file}");
        assert_eq!(first.dados(), second.dados(), "{file}");
        assert_eq!(first.webhook_url(), second.webhook_url(), "{file}");
    }
}
