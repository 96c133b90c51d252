-- Proposals with their answer. What a proposal holds is one value that svc-core reads and writes (dados); what is
-- searched by stands beside it.
CREATE TABLE propostas (
    id                    uuid        PRIMARY KEY,
    client_id             text        NOT NULL,
    id_proposta_parceiro  text        NOT NULL,
    versao                integer     NOT NULL,
    status                text        NOT NULL,
    criada_em             timestamptz NOT NULL,
    respondida_em         timestamptz,
    -- The write that answered it, by which its writer knows it after a broken connection.
    escrita               uuid,
    -- Whether a person's data are still in it.
    tem_dados             boolean     NOT NULL DEFAULT true,
    dados                 bytea       NOT NULL,
    UNIQUE (client_id, id_proposta_parceiro)
);

-- For the removal of a person's data some time after the answer.
CREATE INDEX propostas_a_esquecer ON propostas (respondida_em, id) WHERE tem_dados AND respondida_em IS NOT NULL;

-- The event of each answer on its way to the partner, one a proposal.
CREATE TABLE webhooks (
    id            uuid        PRIMARY KEY REFERENCES propostas,
    client_id     text        NOT NULL,
    host          text        NOT NULL,
    -- When the next attempt is due, or a lease ends; absent once it has ended.
    due           timestamptz,
    leased_until  timestamptz,
    -- Since when it is due, whoever holds it.
    since         timestamptz,
    -- Counts its leases: only the last one's holder may record.
    fence         bigint      NOT NULL DEFAULT 0,
    dados         bytea       NOT NULL
);

CREATE INDEX webhooks_due ON webhooks (client_id, host, due) WHERE due IS NOT NULL;

-- The message to each customer, likewise.
CREATE TABLE mensagens (
    id            uuid        PRIMARY KEY REFERENCES propostas,
    client_id     text        NOT NULL,
    host          text        NOT NULL,
    due           timestamptz,
    leased_until  timestamptz,
    since         timestamptz,
    fence         bigint      NOT NULL DEFAULT 0,
    dados         bytea       NOT NULL
);

CREATE INDEX mensagens_due ON mensagens (client_id, host, due) WHERE due IS NOT NULL;
