//! What is wrong with a request, told whole (C36).

use std::fmt;

use serde::{Serialize, Serializer};

use crate::policy::Regra;

/// The kind of a violation; its spelling on the wire is part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codigo {
    /// Absent, `null` or only blanks (C1, C2).
    CampoObrigatorio,
    /// Another JSON type than the field's.
    TipoInvalido,
    /// The right type in the wrong shape (C3).
    FormatoInvalido,
    /// Longer than the field may be (C3).
    TamanhoExcedido,
    /// Not a real date written `AAAA-MM-DD` (C3).
    DataInvalida,
    /// Not an address that notifications can be sent to (C3, C4, C31).
    UrlInvalida,
    /// A number, or a date, out of its range (C5, C6).
    ValorForaDaFaixa,
    /// CPF whose check digits are wrong (C7).
    DigitoVerificadorInvalido,
    /// Area code that does not exist (C4).
    DddInvalido,
    /// A known key given twice (C2).
    ChaveDuplicada,
    /// Figures that do not agree (C6).
    Inconsistencia,
    /// The body is no JSON text.
    JsonMalformado,
    /// The body is JSON, but no object.
    CorpoNaoObjeto,
}

impl Codigo {
    const ALL: [Self; 13] = [
        Self::CampoObrigatorio,
        Self::TipoInvalido,
        Self::FormatoInvalido,
        Self::TamanhoExcedido,
        Self::DataInvalida,
        Self::UrlInvalida,
        Self::ValorForaDaFaixa,
        Self::DigitoVerificadorInvalido,
        Self::DddInvalido,
        Self::ChaveDuplicada,
        Self::Inconsistencia,
        Self::JsonMalformado,
        Self::CorpoNaoObjeto,
    ];

    /// Reads the wire's spelling.
    ///
    /// ```
    /// use svc_core::Codigo;
    /// assert_eq!(Codigo::parse("data_invalida"), Some(Codigo::DataInvalida));
    /// assert_eq!(Codigo::parse("data"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codigo| codigo.as_str() == text)
    }

    /// The wire's spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CampoObrigatorio => "campo_obrigatorio",
            Self::TipoInvalido => "tipo_invalido",
            Self::FormatoInvalido => "formato_invalido",
            Self::TamanhoExcedido => "tamanho_excedido",
            Self::DataInvalida => "data_invalida",
            Self::UrlInvalida => "url_invalida",
            Self::ValorForaDaFaixa => "valor_fora_da_faixa",
            Self::DigitoVerificadorInvalido => "digito_verificador_invalido",
            Self::DddInvalido => "ddd_invalido",
            Self::ChaveDuplicada => "chave_duplicada",
            Self::Inconsistencia => "inconsistencia",
            Self::JsonMalformado => "json_malformado",
            Self::CorpoNaoObjeto => "corpo_nao_objeto",
        }
    }
}

impl std::error::Error for Codigo {}

impl fmt::Display for Codigo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing wrong with a body: where, what, and by which rule. Never the rejected value, which is a person's data.
///
/// Serialises as the wire shows it, with `razao`, a fixed sentence in Portuguese.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violacao {
    /// JSON pointer (RFC 6901) to the field; empty for the whole body.
    pub propriedade: &'static str,
    /// The kind.
    pub codigo: Codigo,
    /// The consistency rule that is broken, if it is one.
    pub regra: Option<Regra>,
    /// Where the reader stopped, for `json_malformado` and `corpo_nao_objeto`.
    pub posicao: Option<Posicao>,
}

/// A place in a text: line and column, both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posicao {
    /// Line.
    pub linha: usize,
    /// Column.
    pub coluna: usize,
}

impl Violacao {
    pub(crate) const fn new(propriedade: &'static str, codigo: Codigo) -> Self {
        Self { propriedade, codigo, regra: None, posicao: None }
    }

    /// The sentence for a person, in Portuguese: fixed for each pair of code and rule.
    ///
    /// ```
    /// use svc_core::{NovaProposta, Policy, today_in_brasilia};
    /// let today = today_in_brasilia(chrono::DateTime::from_timestamp(1_795_800_000, 0).unwrap());
    /// let invalid = NovaProposta::from_json(b"[]", &Policy::default(), today).unwrap_err();
    /// assert_eq!(invalid.violacoes()[0].razao(), "o corpo é JSON, mas não é um objeto");
    /// ```
    pub const fn razao(&self) -> &'static str {
        match (self.regra, self.codigo) {
            (Some(Regra::R1), _) => "principal deve ser solicitado + iof",
            (Some(Regra::R2), _) => "bruto deve ser parcela × total_parcelas",
            (Some(Regra::R3), _) => "liquido deve ser maior que zero e não passar de solicitado",
            (Some(Regra::R4), _) => "iof acima do teto legal de 3,373% do principal",
            (Some(Regra::R5), _) => "cet_am não pode ser menor que nominal_am",
            (Some(Regra::R6), _) => "cet_aa não decorre de cet_am: deve ser (1 + cet_am)^12 − 1",
            (Some(Regra::R7), _) => "parcela não decorre de principal, nominal_am e total_parcelas (tabela Price)",
            (Some(Regra::R8), Codigo::ValorForaDaFaixa) => "data no futuro",
            (Some(Regra::R8), _) => "data anterior à que deve vir antes dela",
            (Some(Regra::R9), _) => "ultimo_vencimento não decorre de primeiro_vencimento e total_parcelas",
            (None, Codigo::CampoObrigatorio) => "campo obrigatório ausente",
            (None, Codigo::TipoInvalido) => "tipo JSON diferente do esperado",
            (None, Codigo::FormatoInvalido) => "formato diferente do esperado",
            (None, Codigo::TamanhoExcedido) => "texto longo demais",
            (None, Codigo::DataInvalida) => "deve ser uma data real no formato AAAA-MM-DD, de 1900 a 2199",
            (None, Codigo::UrlInvalida) => {
                "deve ser uma URL absoluta http ou https (em producao, https), sem usuário, senha ou fragmento, \
                 fora de redes privadas (salvo as abertas com --webhook-allow)"
            }
            (None, Codigo::ValorForaDaFaixa) => "valor fora da faixa permitida",
            (None, Codigo::DigitoVerificadorInvalido) => "dígitos verificadores não conferem",
            (None, Codigo::DddInvalido) => "DDD inexistente",
            (None, Codigo::ChaveDuplicada) => "chave repetida no mesmo objeto",
            (None, Codigo::Inconsistencia) => "valores que não concordam entre si",
            (None, Codigo::JsonMalformado) => "o corpo não é JSON válido",
            (None, Codigo::CorpoNaoObjeto) => "o corpo é JSON, mas não é um objeto",
        }
    }
}

impl fmt::Display for Violacao {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.propriedade.is_empty() { "body" } else { self.propriedade };
        write!(f, "{place} {}", self.codigo)?;
        if let Some(regra) = self.regra {
            write!(f, " {regra}")?;
        }
        match self.posicao {
            Some(Posicao { linha, coluna }) => write!(f, " at line {linha} column {coluna}"),
            None => Ok(()),
        }
    }
}

impl Serialize for Violacao {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire {
            propriedade: &'static str,
            codigo: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            regra: Option<&'static str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            linha: Option<usize>,
            #[serde(skip_serializing_if = "Option::is_none")]
            coluna: Option<usize>,
            razao: &'static str,
        }
        Wire {
            propriedade: self.propriedade,
            codigo: self.codigo.as_str(),
            regra: self.regra.map(Regra::as_str),
            linha: self.posicao.map(|posicao| posicao.linha),
            coluna: self.posicao.map(|posicao| posicao.coluna),
            razao: self.razao(),
        }
        .serialize(serializer)
    }
}

/// A refused request, with everything that is wrong with it: fields in the order of the interface, then rules (C36).
///
/// ```
/// use svc_core::{NovaProposta, Policy, today_in_brasilia};
/// let today = today_in_brasilia(chrono::DateTime::from_timestamp(1_795_800_000, 0).unwrap());
/// let body = br#"{"id_proposta_parceiro": 7, "simulacao": {}, "webhook_url": "ftp://x"}"#;
/// let invalid = NovaProposta::from_json(body, &Policy::default(), today).unwrap_err();
/// assert_eq!(
///     invalid.to_string(),
///     "3 violations: /id_proposta_parceiro tipo_invalido, /cliente campo_obrigatorio, /webhook_url url_invalida"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    violacoes: Vec<Violacao>,
}

impl Invalid {
    pub(crate) fn new(violacoes: Vec<Violacao>) -> Self {
        Self { violacoes }
    }

    pub(crate) fn body(codigo: Codigo, posicao: Posicao) -> Self {
        Self::new(vec![Violacao { posicao: Some(posicao), ..Violacao::new("", codigo) }])
    }

    /// A body that did not come whole, or not in the form that HTTP gave it: `json_malformado` at its first character.
    ///
    /// ```
    /// use svc_core::Invalid;
    /// assert_eq!(Invalid::unreadable().to_string(), "1 violation: body json_malformado at line 1 column 1");
    /// ```
    pub fn unreadable() -> Self {
        Self::body(Codigo::JsonMalformado, Posicao { linha: 1, coluna: 1 })
    }

    /// All violations; at least one.
    pub fn violacoes(&self) -> &[Violacao] {
        &self.violacoes
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.violacoes.len() == 1 { "" } else { "s" };
        write!(f, "{} violation{plural}: ", self.violacoes.len())?;
        for (i, violacao) in self.violacoes.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{violacao}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}
