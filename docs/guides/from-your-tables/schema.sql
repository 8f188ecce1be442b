-- A small billing product. Amounts are whole cents, times are minutes, and each row that can be
-- edited has a version that every change raises by one.

CREATE TABLE clients (
  id         bigserial PRIMARY KEY,
  name       text NOT NULL,
  active     boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  version    integer NOT NULL DEFAULT 1
);

CREATE TABLE contractors (
  id         bigserial PRIMARY KEY,
  name       text NOT NULL,
  email      text,
  created_at timestamptz NOT NULL DEFAULT now(),
  version    integer NOT NULL DEFAULT 1
);

CREATE TABLE invoices (
  id            bigserial PRIMARY KEY,
  client_id     bigint NOT NULL REFERENCES clients,
  contractor_id bigint REFERENCES contractors,
  month         date NOT NULL, -- its first day
  total_cents   bigint NOT NULL,
  currency      text NOT NULL DEFAULT 'EUR',
  number        text UNIQUE,   -- once it is issued
  created_at    timestamptz NOT NULL DEFAULT now(),
  issued_at     timestamptz,
  sent_at       timestamptz,
  paid_at       timestamptz,
  voided_at     timestamptz,
  version       integer NOT NULL DEFAULT 1
);

CREATE TABLE projects (
  id        bigserial PRIMARY KEY,
  client_id bigint NOT NULL REFERENCES clients,
  name      text NOT NULL
);

CREATE TABLE work ( -- time on a project
  id            bigserial PRIMARY KEY,
  project_id    bigint NOT NULL REFERENCES projects,
  contractor_id bigint NOT NULL REFERENCES contractors,
  invoice_id    bigint REFERENCES invoices,
  day           date NOT NULL,
  minutes       integer NOT NULL,
  bill_cents    bigint NOT NULL,
  pay_cents     bigint NOT NULL,
  note          text NOT NULL DEFAULT '',
  created_at    timestamptz NOT NULL DEFAULT now(),
  approved_at   timestamptz,
  version       integer NOT NULL DEFAULT 1
);

CREATE TABLE payments ( -- by clients
  id           bigserial PRIMARY KEY,
  invoice_id   bigint NOT NULL REFERENCES invoices,
  amount_cents bigint NOT NULL,
  method       text NOT NULL,
  received_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE payouts ( -- to contractors
  id            bigserial PRIMARY KEY,
  invoice_id    bigint NOT NULL REFERENCES invoices,
  contractor_id bigint NOT NULL REFERENCES contractors,
  amount_cents  bigint NOT NULL,
  paid_at       timestamptz NOT NULL DEFAULT now()
);
