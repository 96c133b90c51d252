//! The reader: a body's bytes to the leaves of its field table, in one pass that stops at nothing but broken JSON.
//!
//! A derived reader would stop at its first fault and an untyped tree would lose duplicates and exact numbers, so
//! this is one visitor over [`Node`]s. Each value is taken as raw text first: its first byte tells its type, whatever
//! another crate made serde_json do with numbers.
//!
//! That costs a second look at each value, so a first reading hopes that groups are objects and text is text, and
//! takes them as such; where one is not, the body is read again with care. Good bodies pay nothing for that.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Deserializer, Error};

use crate::campo::{Campo, Node, Tipo};
use crate::error::{Codigo, Invalid, Posicao};
use crate::findings::Findings;

/// How deep a body may nest, its root counted as 1 (C38).
pub(crate) const MAX_DEPTH: usize = 32;

/// What stands at a field.
#[derive(Debug, Default)]
pub(crate) enum Leaf<'a> {
    /// Nothing, `null`, or text of only blanks (C2).
    #[default]
    Absent,
    Text(Cow<'a, str>),
    /// A number's literal.
    Number(Cow<'a, str>),
    /// An object; its fields are leaves of their own.
    Object,
    /// A value of another type; the finding is noted already.
    Wrong,
}

/// The leaves of one body.
#[derive(Debug)]
pub(crate) struct Leaves<'a> {
    leaves: [Leaf<'a>; Campo::COUNT],
}

impl<'a> Leaves<'a> {
    pub(crate) fn empty() -> Self {
        Self { leaves: std::array::from_fn(|_| Leaf::Absent) }
    }

    /// Takes a leaf out; a second call gives `Absent`.
    pub(crate) fn take(&mut self, campo: Campo) -> Leaf<'a> {
        self.leaves.get_mut(campo as usize).map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn set(&mut self, campo: Campo, leaf: Leaf<'a>) {
        if let Some(place) = self.leaves.get_mut(campo as usize) {
            *place = leaf;
        }
    }
}

/// Reads a body by its field table. Wrong types and duplicate keys are findings; only a body that is no JSON object
/// at all ends the reading.
pub(crate) fn read<'a>(body: &'a [u8], table: &'static [Node]) -> Result<(Leaves<'a>, Findings), Invalid> {
    let text = str::from_utf8(body).map_err(|error| malformed(body, error.valid_up_to()))?;
    let start = text.len() - text.trim_start_matches([' ', '\t', '\n', '\r']).len();
    if text.as_bytes().get(start) != Some(&b'{') {
        return Err(no_object(text, start));
    }
    let hopeful = Reader { text, leaves: Leaves::empty(), findings: Findings::default(), fault: None, careful: false };
    let reader = match hopeful.read(table) {
        Ok(reader) => reader,
        Err(_) => Reader { text, leaves: Leaves::empty(), findings: Findings::default(), fault: None, careful: true }
            .read(table)
            .map_err(|error| malformed(body, offset(text, &error)))?,
    };
    match reader.fault {
        Some(fault) => Err(malformed(body, fault)),
        None => Ok((reader.leaves, reader.findings)),
    }
}

/// A body that does not begin like an object: JSON of another kind, or no JSON.
fn no_object(text: &str, start: usize) -> Invalid {
    match serde_json::from_str::<&RawValue>(text) {
        Err(error) => malformed(text.as_bytes(), offset(text, &error)),
        Ok(value) => match fault(value.get(), 0) {
            Some(fault) => malformed(text.as_bytes(), start + fault),
            None => Invalid::body(Codigo::CorpoNaoObjeto, position(text.as_bytes(), start)),
        },
    }
}

struct Reader<'a> {
    text: &'a str,
    leaves: Leaves<'a>,
    findings: Findings,
    /// Byte offset of the first place that the JSON parser lets pass and we do not.
    fault: Option<usize>,
    /// Whether a group may be something else than an object, and text something else than text.
    careful: bool,
}

impl<'a> Reader<'a> {
    fn read(mut self, table: &'static [Node]) -> Result<Self, Error> {
        let mut deserializer = Deserializer::from_str(self.text);
        deserializer.deserialize_map(Object { reader: &mut self, table, depth: 1 })?;
        deserializer.end()?;
        Ok(self)
    }

    /// Reads the value of a known field; `depth` is that of the object around it.
    fn value(&mut self, node: &Node, raw: &'a str, depth: usize) {
        let leaf = match (raw.as_bytes().first(), &node.tipo) {
            (Some(b'n'), _) => Leaf::Absent,
            (Some(b'"'), tipo) => match (self.string(raw), tipo) {
                (Some(text), _) if is_blank(&text) => Leaf::Absent,
                (Some(text), Tipo::Texto) => Leaf::Text(text),
                _ => Leaf::Wrong,
            },
            (Some(b'-' | b'0'..=b'9'), Tipo::Numero) => Leaf::Number(Cow::Borrowed(raw)),
            (Some(b'{'), Tipo::Objeto(table)) => {
                let object = Object { reader: self, table, depth: depth + 1 };
                if let Err(error) = Deserializer::from_str(raw).deserialize_map(object) {
                    self.fail(raw, offset(raw, &error));
                }
                Leaf::Object
            }
            _ => {
                self.skip(raw, depth);
                Leaf::Wrong
            }
        };
        if matches!(leaf, Leaf::Wrong) {
            self.findings.add(node.campo, Codigo::TipoInvalido);
        }
        self.leaves.set(node.campo, leaf);
    }

    /// A string's text, borrowed where it has no escapes.
    fn string(&mut self, raw: &'a str) -> Option<Cow<'a, str>> {
        if !raw.contains('\\') {
            return raw.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed);
        }
        match serde_json::from_str(raw) {
            Ok(text) => Some(Cow::Owned(text)),
            Err(error) => {
                self.fail(raw, fault(raw, 0).unwrap_or_else(|| offset(raw, &error)));
                None
            }
        }
    }

    /// Passes over a value that is not read.
    fn skip(&mut self, raw: &'a str, depth: usize) {
        if let Some(fault) = fault(raw, depth) {
            self.fail(raw, fault);
        }
    }

    fn fail(&mut self, part: &'a str, offset_in_part: usize) {
        let offset = part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr()) + offset_in_part;
        self.fault = Some(self.fault.map_or(offset, |first| first.min(offset)));
    }
}

/// Visits one object whose fields the table knows.
struct Object<'o, 'a> {
    reader: &'o mut Reader<'a>,
    table: &'static [Node],
    depth: usize,
}

impl<'a> Visitor<'a> for Object<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { reader, table, depth } = self;
        let (mut seen, mut repeated) = (0_u32, 0_u32);
        while let Some(known) = map.next_key_seed(Key(table))? {
            let Some((bit, node)) = known else {
                reader.skip(map.next_value::<&'a RawValue>()?.get(), depth);
                continue;
            };
            if seen & bit != 0 {
                if repeated & bit == 0 {
                    reader.findings.add(node.campo, Codigo::ChaveDuplicada);
                }
                repeated |= bit;
                reader.skip(map.next_value::<&'a RawValue>()?.get(), depth);
                continue;
            }
            seen |= bit;
            match &node.tipo {
                Tipo::Objeto(table) if !reader.careful => {
                    map.next_value_seed(Object { reader, table, depth: depth + 1 })?;
                    reader.leaves.set(node.campo, Leaf::Object);
                }
                Tipo::Texto if !reader.careful => {
                    let text = map.next_value_seed(Text)?;
                    reader.leaves.set(node.campo, if is_blank(&text) { Leaf::Absent } else { Leaf::Text(text) });
                }
                _ => reader.value(node, map.next_value::<&'a RawValue>()?.get(), depth),
            }
        }
        Ok(())
    }
}

impl<'a> DeserializeSeed<'a> for Object<'_, 'a> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// C2: text of only blanks is absent.
fn is_blank(text: &str) -> bool {
    text.trim_start().is_empty()
}

/// Takes a string, borrowed where it has no escapes.
struct Text;

impl<'a> DeserializeSeed<'a> for Text {
    type Value = Cow<'a, str>;

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Text {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Finds a key in a table, without a copy of it: its bit in a set of keys, and its node.
struct Key(&'static [Node]);

impl<'a> DeserializeSeed<'a> for Key {
    type Value = Option<(u32, &'static Node)>;

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<(u32, &'static Node)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok((0..).map(|i| 1 << i).zip(self.0).find(|(_, node)| node.nome == key))
    }
}

/// The first byte in a value's legal text that nests too deep or is half of a surrogate pair: the JSON parser checks
/// neither in what it passes over. `depth` is that of the object around the value.
fn fault(raw: &str, mut depth: usize) -> Option<usize> {
    if !raw.contains(['{', '[', '\\']) {
        return None;
    }
    let mut bytes = raw.bytes().enumerate();
    let mut in_string = false;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' => {
                let escape = raw.get(at..).unwrap_or_default();
                let length = match surrogate(escape) {
                    Escape::Whole(length) => length,
                    Escape::Half => return Some(at),
                };
                // The backslash itself is taken.
                bytes.by_ref().take(length - 1).for_each(drop);
            }
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some(at);
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

enum Escape {
    /// One character, this many bytes long.
    Whole(usize),
    /// A surrogate without its other half.
    Half,
}

/// The escape at the start of the text, which is legal but for its surrogates.
fn surrogate(text: &str) -> Escape {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    match (unit(0), unit(6)) {
        (None, _) => Escape::Whole(2),
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => Escape::Whole(12),
        (Some(0xD800..=0xDFFF), _) => Escape::Half,
        (Some(_), _) => Escape::Whole(6),
    }
}

fn malformed(body: &[u8], offset: usize) -> Invalid {
    Invalid::body(Codigo::JsonMalformado, position(body, offset))
}

/// The byte at which the parser stopped; it counts lines from 1 and gives the bytes read of the last one, none where the
/// byte was a line's end.
fn offset(text: &str, error: &Error) -> usize {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    (before + error.column()).saturating_sub(1)
}

/// Line and column of a byte, the column in characters; the bytes before it are UTF-8.
fn position(body: &[u8], offset: usize) -> Posicao {
    let before = body.get(..offset.min(body.len())).unwrap_or_default();
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Posicao {
        linha: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        coluna: 1 + String::from_utf8_lossy(line).chars().count(),
    }
}
