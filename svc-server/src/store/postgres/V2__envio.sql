-- What the channel of a customer's message calls it, by which news of it are found. Servers of the version before do not know
-- the column, and leave it as it is.
ALTER TABLE mensagens ADD COLUMN envio text;

CREATE INDEX mensagens_envio ON mensagens (envio) WHERE envio IS NOT NULL;
