-- The read tables: what the API serves. Only the projector writes them, and
-- all rows of a workspace always stand at its visible position.
--
-- A row holds, as columns, what lists filter and order by, and its answer as
-- text in parts by permission. base opens the JSON object and does not close
-- it, pay and margin begin with a comma, so that an answer is the parts a key
-- may see, one after the other, and a brace. What a key may not see is never
-- selected.
--
-- position is the row's place in lists: the log position of the entry that
-- last changed it. Several rows may share one (a rename), then id decides.

-- +goose Up
CREATE TABLE invoice (
    workspace_id  text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    position      bigint NOT NULL,
    shown         boolean NOT NULL,
    client_id     text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C",
    period        text COLLATE "C" NOT NULL,
    status        text COLLATE "C" NOT NULL,
    type          text COLLATE "C" NOT NULL,
    base          text NOT NULL,
    pay           text NOT NULL,
    margin        text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE invoice IS 'Invoices, packages and credit notes (/v1/invoices).';
COMMENT ON COLUMN invoice.shown IS 'False while it is a draft: kept for the fold, hidden from every reader.';
COMMENT ON COLUMN invoice.status IS 'client_billing_status.';
COMMENT ON COLUMN invoice.base IS 'Fields for invoices:read.';
COMMENT ON COLUMN invoice.pay IS 'Fields that need pay:read.';
COMMENT ON COLUMN invoice.margin IS 'Fields that need margin:read.';
CREATE INDEX invoice_list ON invoice (workspace_id, position, id);
CREATE INDEX invoice_client ON invoice (workspace_id, client_id, position, id);
CREATE INDEX invoice_contractor ON invoice (workspace_id, contractor_id, position, id);
CREATE INDEX invoice_period ON invoice (workspace_id, period, position, id);
CREATE INDEX invoice_status ON invoice (workspace_id, status, position, id);
CREATE INDEX invoice_type ON invoice (workspace_id, type, position, id);

CREATE TABLE charge (
    workspace_id  text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    position      bigint NOT NULL,
    billed        boolean NOT NULL,
    client_id     text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C",
    invoice_id    text COLLATE "C",
    period        text COLLATE "C" NOT NULL,
    base          text NOT NULL,
    pay           text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE charge IS 'Charges (/v1/charges).';
COMMENT ON COLUMN charge.billed IS 'billed_to_client; the others are shown only with pay:read.';
CREATE INDEX charge_list ON charge (workspace_id, position, id);
CREATE INDEX charge_billed ON charge (workspace_id, position, id) WHERE billed;
CREATE INDEX charge_client ON charge (workspace_id, client_id, position, id);
CREATE INDEX charge_contractor ON charge (workspace_id, contractor_id, position, id);
CREATE INDEX charge_period ON charge (workspace_id, period, position, id);
CREATE INDEX charge_invoice ON charge (workspace_id, invoice_id) WHERE invoice_id IS NOT NULL;

CREATE TABLE time_entry (
    workspace_id  text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    position      bigint NOT NULL,
    client_id     text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C" NOT NULL,
    invoice_id    text COLLATE "C",
    period        text COLLATE "C" NOT NULL,
    status        text COLLATE "C" NOT NULL,
    base          text NOT NULL,
    pay           text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE time_entry IS 'Time entries (/v1/time-entries).';
CREATE INDEX time_entry_list ON time_entry (workspace_id, position, id);
CREATE INDEX time_entry_client ON time_entry (workspace_id, client_id, position, id);
CREATE INDEX time_entry_contractor ON time_entry (workspace_id, contractor_id, position, id);
CREATE INDEX time_entry_period ON time_entry (workspace_id, period, position, id);
CREATE INDEX time_entry_status ON time_entry (workspace_id, status, position, id);
CREATE INDEX time_entry_invoice ON time_entry (workspace_id, invoice_id) WHERE invoice_id IS NOT NULL;

CREATE TABLE payment (
    workspace_id  text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    position      bigint NOT NULL,
    direction     text COLLATE "C" NOT NULL,
    client_id     text COLLATE "C",
    contractor_id text COLLATE "C",
    base          text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE payment IS 'Confirmed payments, both directions (/v1/payments).';
COMMENT ON COLUMN payment.direction IS 'received_from_client, or paid_to_contractor: those are shown only with pay:read.';
CREATE INDEX payment_list ON payment (workspace_id, position, id);
CREATE INDEX payment_direction ON payment (workspace_id, direction, position, id);
CREATE INDEX payment_client ON payment (workspace_id, client_id, position, id) WHERE client_id IS NOT NULL;
CREATE INDEX payment_contractor ON payment (workspace_id, contractor_id) WHERE contractor_id IS NOT NULL;

CREATE TABLE client (
    workspace_id text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    position     bigint NOT NULL,
    base         text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE client IS 'Clients with their contacts (/v1/clients).';
CREATE INDEX client_list ON client (workspace_id, position, id);

CREATE TABLE contractor (
    workspace_id text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    position     bigint NOT NULL,
    base         text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE contractor IS 'Contractors (/v1/contractors).';
CREATE INDEX contractor_list ON contractor (workspace_id, position, id);

CREATE TABLE client_credit (
    workspace_id text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    position     bigint NOT NULL,
    base         text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE client_credit IS 'Credit of a client (/v1/clients/{id}/credit), without its history.';
COMMENT ON COLUMN client_credit.id IS 'The client''s id. A credit can exist before its client is recorded.';

CREATE TABLE credit_move (
    workspace_id text COLLATE "C" NOT NULL,
    client_id    text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    position     bigint NOT NULL,
    base         text NOT NULL,
    PRIMARY KEY (workspace_id, client_id, id)
);
COMMENT ON TABLE credit_move IS 'The history of a client''s credit; one row an entry, never changed.';
CREATE INDEX credit_move_list ON credit_move (workspace_id, client_id, position);

CREATE TABLE closed_period (
    workspace_id text COLLATE "C" NOT NULL,
    period       text COLLATE "C" NOT NULL,
    client_id    text COLLATE "C" NOT NULL,
    position     bigint NOT NULL,
    PRIMARY KEY (workspace_id, period, client_id)
);
COMMENT ON TABLE closed_period IS 'Periods that are closed, for the workspace (client_id '''') or for one client.';

CREATE TABLE anomaly (
    workspace_id text COLLATE "C" NOT NULL,
    position     bigint NOT NULL,
    reason       text COLLATE "C" NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace_id, position, reason)
);
COMMENT ON TABLE anomaly IS 'Entries that could not have their effect, or not all of it. Data, not a stop.';

-- +goose Down
DROP TABLE anomaly, closed_period, credit_move, client_credit, contractor, client, payment, time_entry, charge, invoice;
