//! The violations of one request while they are being collected.

use crate::campo::Campo;
use crate::error::{Codigo, Invalid, Violacao};
use crate::policy::{Perfil, Regra};

/// What was found so far, and on which fields.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
}

#[derive(Debug)]
struct Finding {
    campo: Campo,
    violacao: Violacao,
    /// Only `producao` refuses for it; `homologacao` keeps it as an aviso.
    strict: bool,
}

impl Findings {
    /// A violation in both profiles.
    pub(crate) fn add(&mut self, campo: Campo, codigo: Codigo) {
        self.push(campo, codigo, None, false);
    }

    /// A violation in `producao` only.
    pub(crate) fn add_strict(&mut self, campo: Campo, codigo: Codigo) {
        self.push(campo, codigo, None, true);
    }

    /// A broken rule, a violation in `producao` only.
    pub(crate) fn add_rule(&mut self, campo: Campo, codigo: Codigo, regra: Regra) {
        self.push(campo, codigo, Some(regra), true);
    }

    fn push(&mut self, campo: Campo, codigo: Codigo, regra: Option<Regra>, strict: bool) {
        let violacao = Violacao { regra, ..Violacao::new(campo.ponteiro(), codigo) };
        self.found.push(Finding { campo, violacao, strict });
    }

    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether the field's value has no violation. A key given twice has a first value, which counts (C2).
    pub(crate) fn is_clean(&self, campo: Campo) -> bool {
        let twice = Codigo::ChaveDuplicada;
        !self.found.iter().any(|finding| finding.campo == campo && finding.violacao.codigo != twice)
    }

    /// Whether the field was missing.
    pub(crate) fn is_absent(&self, campo: Campo) -> bool {
        let absent = Violacao::new(campo.ponteiro(), Codigo::CampoObrigatorio);
        self.found.iter().any(|finding| finding.violacao == absent)
    }

    /// The verdict: everything that this profile refuses for, or else the avisos.
    ///
    /// Fields come in the interface's order; rules, which were added last and in their own order, come behind.
    pub(crate) fn settle(mut self, perfil: Perfil) -> Result<Vec<Violacao>, Invalid> {
        self.found.sort_by_key(|finding| (finding.violacao.regra, finding.campo));
        let refused = |finding: &Finding| perfil == Perfil::Producao || !finding.strict;
        if self.found.iter().any(refused) {
            let violacoes = self.found.into_iter().filter(refused).map(|finding| finding.violacao).collect();
            return Err(Invalid::new(violacoes));
        }
        Ok(self.found.into_iter().map(|finding| finding.violacao).collect())
    }
}
