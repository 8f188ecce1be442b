-- Rows that have left the lists, which include=removed shows: what the API
-- serves of each is base, as in the other read tables. A key without pay:read
-- stops seeing a charge earlier than one with it, when the charge is no longer
-- billed to the client, so charges have two tables.
--
-- Rows that left before this are not in the tables yet. The rows of workspaces
-- whose checkpoint has rules below 2 are rebuilt in the background.

-- +goose Up
CREATE TABLE removed_time_entry (
    workspace_id  text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    position      bigint NOT NULL,
    client_id     text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C" NOT NULL,
    period        text COLLATE "C" NOT NULL,
    status        text COLLATE "C" NOT NULL,
    base          text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE removed_time_entry IS 'Time entries that were deleted (/v1/time-entries?include=removed).';
COMMENT ON COLUMN removed_time_entry.position IS 'Of the entry that deleted it.';
COMMENT ON COLUMN removed_time_entry.status IS 'Like the other columns that filters ask for: as it was when it left.';
CREATE INDEX removed_time_entry_list ON removed_time_entry (workspace_id, position, id);
CREATE INDEX removed_time_entry_client ON removed_time_entry (workspace_id, client_id, position, id);
CREATE INDEX removed_time_entry_contractor ON removed_time_entry (workspace_id, contractor_id, position, id);
CREATE INDEX removed_time_entry_period ON removed_time_entry (workspace_id, period, position, id);
CREATE INDEX removed_time_entry_status ON removed_time_entry (workspace_id, status, position, id);

CREATE TABLE removed_charge (
    workspace_id  text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    position      bigint NOT NULL,
    client_id     text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C",
    period        text COLLATE "C" NOT NULL,
    base          text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE removed_charge IS 'Charges that were deleted, for keys with pay:read (/v1/charges?include=removed).';
CREATE INDEX removed_charge_list ON removed_charge (workspace_id, position, id);
CREATE INDEX removed_charge_client ON removed_charge (workspace_id, client_id, position, id);
CREATE INDEX removed_charge_contractor ON removed_charge (workspace_id, contractor_id, position, id);
CREATE INDEX removed_charge_period ON removed_charge (workspace_id, period, position, id);

CREATE TABLE removed_billed_charge (
    workspace_id  text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    position      bigint NOT NULL,
    client_id     text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C",
    period        text COLLATE "C" NOT NULL,
    base          text NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE removed_billed_charge IS 'Charges that were billed to the client and then deleted or no longer billed, for keys without pay:read (/v1/charges?include=removed).';
CREATE INDEX removed_billed_charge_list ON removed_billed_charge (workspace_id, position, id);
CREATE INDEX removed_billed_charge_client ON removed_billed_charge (workspace_id, client_id, position, id);
CREATE INDEX removed_billed_charge_contractor ON removed_billed_charge (workspace_id, contractor_id, position, id);
CREATE INDEX removed_billed_charge_period ON removed_billed_charge (workspace_id, period, position, id);

-- +goose Down
DROP TABLE removed_billed_charge, removed_charge, removed_time_entry;
