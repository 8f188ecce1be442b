-- The outbox, as ingest would make it.

CREATE TABLE watermill_ledgerfeed (
  "offset"       bigserial,
  uuid           varchar(36) NOT NULL,
  created_at     timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  payload        json,
  metadata       json,
  transaction_id xid8 NOT NULL,
  PRIMARY KEY (transaction_id, "offset")
);
