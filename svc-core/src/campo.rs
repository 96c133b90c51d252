//! The wire's fields: one enum that names them, one table that shows how they nest.

/// A field of a request. Its order is the order in which violations are reported.
macro_rules! campos {
    ($($campo:ident $ponteiro:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Campo { $($campo),* }

        impl Campo {
            /// JSON pointer from the body's root.
            pub(crate) const fn ponteiro(self) -> &'static str {
                match self { $(Self::$campo => $ponteiro),* }
            }

            /// How many fields there are.
            pub(crate) const COUNT: usize = [$($ponteiro),*].len();

            /// The field with this pointer.
            pub(crate) fn at(ponteiro: &str) -> Option<Self> {
                match ponteiro { $($ponteiro => Some(Self::$campo),)* _ => None }
            }
        }
    };
}

campos! {
    IdPropostaParceiro "/id_proposta_parceiro"
    DataSolicitacao "/data_solicitacao"
    Cliente "/cliente"
    Nome "/cliente/nome"
    Cpf "/cliente/cpf"
    Whatsapp "/cliente/whatsapp"
    Simulacao "/simulacao"
    Valores "/simulacao/valores"
    Solicitado "/simulacao/valores/solicitado"
    Iof "/simulacao/valores/iof"
    Principal "/simulacao/valores/principal"
    Parcela "/simulacao/valores/parcela"
    Liquido "/simulacao/valores/liquido"
    Bruto "/simulacao/valores/bruto"
    Taxas "/simulacao/taxas"
    NominalAm "/simulacao/taxas/nominal_am"
    CetAm "/simulacao/taxas/cet_am"
    CetAa "/simulacao/taxas/cet_aa"
    Prazos "/simulacao/prazos"
    TotalParcelas "/simulacao/prazos/total_parcelas"
    DataLiberacaoEstimada "/simulacao/prazos/data_liberacao_estimada"
    PrimeiroVencimento "/simulacao/prazos/primeiro_vencimento"
    UltimoVencimento "/simulacao/prazos/ultimo_vencimento"
    WebhookUrl "/webhook_url"
    ClientId "/client_id"
    ClientSecret "/client_secret"
    Acao "/acao"
}

/// A field where it stands in its object, and what may stand there.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) campo: Campo,
    pub(crate) nome: &'static str,
    pub(crate) tipo: Tipo,
}

/// The JSON type of a field.
#[derive(Debug)]
pub(crate) enum Tipo {
    Texto,
    Numero,
    Objeto(&'static [Node]),
}

/// The body of a proposal (interface 2.3).
pub(crate) static PROPOSTA: [Node; 5] = [
    texto(Campo::IdPropostaParceiro),
    texto(Campo::DataSolicitacao),
    objeto(Campo::Cliente, &[texto(Campo::Nome), texto(Campo::Cpf), texto(Campo::Whatsapp)]),
    objeto(
        Campo::Simulacao,
        &[
            objeto(
                Campo::Valores,
                &[
                    numero(Campo::Solicitado),
                    numero(Campo::Iof),
                    numero(Campo::Principal),
                    numero(Campo::Parcela),
                    numero(Campo::Liquido),
                    numero(Campo::Bruto),
                ],
            ),
            objeto(Campo::Taxas, &[numero(Campo::NominalAm), numero(Campo::CetAm), numero(Campo::CetAa)]),
            objeto(
                Campo::Prazos,
                &[
                    numero(Campo::TotalParcelas),
                    texto(Campo::DataLiberacaoEstimada),
                    texto(Campo::PrimeiroVencimento),
                    texto(Campo::UltimoVencimento),
                ],
            ),
        ],
    ),
    texto(Campo::WebhookUrl),
];

/// The body of a login (interface 2.1).
pub(crate) static LOGIN: [Node; 2] = [texto(Campo::ClientId), texto(Campo::ClientSecret)];

/// The body of a confirmation (C14).
pub(crate) static ACAO: [Node; 1] = [texto(Campo::Acao)];

const fn texto(campo: Campo) -> Node {
    node(campo, Tipo::Texto)
}

const fn numero(campo: Campo) -> Node {
    node(campo, Tipo::Numero)
}

const fn objeto(campo: Campo, campos: &'static [Node]) -> Node {
    node(campo, Tipo::Objeto(campos))
}

/// The field's name is what stands behind its pointer's last slash.
const fn node(campo: Campo, tipo: Tipo) -> Node {
    let mut nome = campo.ponteiro();
    let mut rest = nome.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'/' {
            nome = nome.split_at(nome.len() - tail.len()).1;
        }
    }
    Node { campo, nome, tipo }
}
