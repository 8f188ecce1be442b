-- The schema as the migrations leave it, to be read: nothing runs this file.
-- It is written by `go test ./migrations -update`, and a test keeps it true.

CREATE TABLE access_revision (
    workspace_id text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    CONSTRAINT access_revision_pkey PRIMARY KEY (workspace_id),
    CONSTRAINT access_revision_one_row CHECK ((workspace_id = '*'::text))
);
COMMENT ON TABLE access_revision IS 'Counter of changes of keys, one row; every instance polls it several times a second.';
COMMENT ON COLUMN access_revision.workspace_id IS 'Always *, which stands for all workspaces.';
COMMENT ON COLUMN access_revision.revision IS 'Number of changes so far.';

CREATE TABLE anomaly (
    workspace_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    CONSTRAINT anomaly_pkey PRIMARY KEY (workspace_id, "position", reason)
);
COMMENT ON TABLE anomaly IS 'Entries that had no effect, or only a part of their effect, with the reason. They do not stop the projector.';

CREATE TABLE anomaly_acknowledged (
    workspace_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    reason text COLLATE "C" NOT NULL,
    acknowledged_at timestamp with time zone NOT NULL,
    note text NOT NULL,
    CONSTRAINT anomaly_acknowledged_pkey PRIMARY KEY (workspace_id, "position", reason)
);
COMMENT ON TABLE anomaly_acknowledged IS 'Anomalies that a person has looked at; who it was stands in console_audit.';
COMMENT ON COLUMN anomaly_acknowledged.acknowledged_at IS 'When that was.';
COMMENT ON COLUMN anomaly_acknowledged.note IS 'What came of it, in words.';

CREATE TABLE api_key (
    workspace_id text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    permissions text[] NOT NULL,
    rate_limit_per_minute integer NOT NULL DEFAULT 120,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revision bigint NOT NULL DEFAULT 0,
    CONSTRAINT api_key_pkey PRIMARY KEY (workspace_id, key_id),
    CONSTRAINT api_key_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT api_key_margin_needs_pay CHECK (((permissions @> '{pay:read}'::text[]) OR (NOT (permissions @> '{margin:read}'::text[])))),
    CONSTRAINT api_key_name_given CHECK ((name <> ''::text)),
    CONSTRAINT api_key_rate_limit_positive CHECK ((rate_limit_per_minute > 0))
);
COMMENT ON TABLE api_key IS 'API keys of the workspaces. Rows are never deleted: a revoked key stays listed.';
COMMENT ON COLUMN api_key.workspace_id IS 'The one workspace that the key reads.';
COMMENT ON COLUMN api_key.key_id IS 'key_ and a UUIDv7. It stays the same through rotations; the rate limit counts by it.';
COMMENT ON COLUMN api_key.name IS 'Name given by the user, 1 to 100 characters, not unique.';
COMMENT ON COLUMN api_key.permissions IS 'Permissions (scopes) such as invoices:read, fixed for the life of the key. A program ignores permissions that it does not know.';
COMMENT ON COLUMN api_key.rate_limit_per_minute IS 'Requests allowed in a clock minute.';
COMMENT ON COLUMN api_key.created_at IS 'When the key was created.';
COMMENT ON COLUMN api_key.expires_at IS 'From this time on the key is refused; null: it does not expire.';
COMMENT ON COLUMN api_key.revoked_at IS 'When the key was revoked; null: it was not. A revoked key is refused, whatever the time says.';
COMMENT ON COLUMN api_key.revision IS 'Value of access_revision at the last change of the key, its secrets or its workspace''s name; 0: unchanged since it was created.';
CREATE INDEX api_key_by_id ON public.api_key USING btree (key_id);
CREATE INDEX api_key_changed ON public.api_key USING btree (revision) WHERE (revision > 0);

CREATE TABLE api_key_secret (
    workspace_id text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    prefix text COLLATE "C" NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ends_at timestamp with time zone,
    ended boolean NOT NULL DEFAULT false,
    CONSTRAINT api_key_secret_pkey PRIMARY KEY (workspace_id, key_id, hash),
    CONSTRAINT api_key_secret_workspace_id_key_id_fkey FOREIGN KEY (workspace_id, key_id) REFERENCES api_key(workspace_id, key_id),
    CONSTRAINT api_key_secret_end_known CHECK (((ends_at IS NOT NULL) OR (NOT ended))),
    CONSTRAINT api_key_secret_hash_length CHECK ((octet_length(hash) = 32))
);
COMMENT ON TABLE api_key_secret IS 'Secrets of the keys. Rows are never deleted: instances read from them which cached keys to drop.';
COMMENT ON COLUMN api_key_secret.workspace_id IS 'Workspace of the key.';
COMMENT ON COLUMN api_key_secret.key_id IS 'Key that the secret opens.';
COMMENT ON COLUMN api_key_secret.hash IS 'SHA-256 of the full text of the key, the only form in which the secret is kept.';
COMMENT ON COLUMN api_key_secret.prefix IS 'Public beginning of the key: brand, underscore, 8 characters.';
COMMENT ON COLUMN api_key_secret.created_at IS 'When the secret was created: with the key, or by a rotation.';
COMMENT ON COLUMN api_key_secret.ends_at IS 'From this time on the secret is refused, because a rotation replaced it; null: it is the key''s newest.';
COMMENT ON COLUMN api_key_secret.ended IS 'True: a rotation without an overlap replaced the secret. It is refused at once, whatever the clocks of the instances say.';
CREATE INDEX api_key_secret_by_hash ON public.api_key_secret USING btree (hash);

CREATE TABLE api_key_use (
    workspace_id text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    last_used_at timestamp with time zone NOT NULL,
    CONSTRAINT api_key_use_pkey PRIMARY KEY (workspace_id, key_id),
    CONSTRAINT api_key_use_workspace_id_key_id_fkey FOREIGN KEY (workspace_id, key_id) REFERENCES api_key(workspace_id, key_id)
) WITH (fillfactor=50);
COMMENT ON TABLE api_key_use IS 'Uses of API keys.';
COMMENT ON COLUMN api_key_use.key_id IS 'The key.';
COMMENT ON COLUMN api_key_use.last_used_at IS 'When a request with the key was last accepted; written once a minute at most.';

CREATE TABLE append_trace (
    workspace_id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    traceparent text COLLATE "C" NOT NULL,
    recorded_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT append_trace_pkey PRIMARY KEY (workspace_id, event_id, traceparent),
    CONSTRAINT append_trace_traceparent_check CHECK ((octet_length(traceparent) = 55))
);
COMMENT ON TABLE append_trace IS 'The traces that entries were appended in, for a few days; nothing but traces of deliveries needs it.';
COMMENT ON COLUMN append_trace.event_id IS 'The id of the entry.';
COMMENT ON COLUMN append_trace.traceparent IS 'The span of the append, in the form of the header traceparent (W3C Trace Context, version 00).';
COMMENT ON COLUMN append_trace.recorded_at IS 'When that was, by the clock of the database.';
CREATE INDEX append_trace_recorded ON public.append_trace USING btree (recorded_at);

CREATE TABLE attempt_rollup (
    workspace_id text COLLATE "C" NOT NULL,
    step smallint NOT NULL,
    at timestamp with time zone NOT NULL,
    webhook_id text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    attempts bigint NOT NULL,
    latency integer[] NOT NULL,
    CONSTRAINT attempt_rollup_pkey PRIMARY KEY (workspace_id, step, at, webhook_id, outcome),
    CONSTRAINT attempt_rollup_step_check CHECK ((step = ANY (ARRAY[1, 60])))
) WITH (fillfactor=80);
COMMENT ON TABLE attempt_rollup IS 'Attempts to deliver, in the intervals of request_rollup.';
COMMENT ON COLUMN attempt_rollup.step IS 'Length of the interval in minutes.';
COMMENT ON COLUMN attempt_rollup.at IS 'Start of the interval, in which the attempt began.';
COMMENT ON COLUMN attempt_rollup.outcome IS 'Outcome of the attempts: success, or the cause of the failure.';
COMMENT ON COLUMN attempt_rollup.attempts IS 'Number of attempts.';
COMMENT ON COLUMN attempt_rollup.latency IS 'How many took how long, by the bounds in internal/rollup.';
CREATE INDEX attempt_rollup_age ON public.attempt_rollup USING btree (step, at);

CREATE TABLE charge (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    billed boolean NOT NULL,
    client_id text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C",
    invoice_id text COLLATE "C",
    period text COLLATE "C" NOT NULL,
    base text NOT NULL,
    pay text NOT NULL,
    status text COLLATE "C",
    day text COLLATE "C",
    currency text COLLATE "C",
    amount bigint,
    pay_amount bigint,
    CONSTRAINT charge_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE charge IS 'Charges (/v1/charges).';
COMMENT ON COLUMN charge.billed IS 'billed_to_client. Charges that are not billed are shown only with pay:read.';
COMMENT ON COLUMN charge.day IS 'The field date.';
COMMENT ON COLUMN charge.currency IS 'The field of the same name.';
COMMENT ON COLUMN charge.amount IS 'In hundredths.';
COMMENT ON COLUMN charge.pay_amount IS 'In hundredths; read only for pay:read.';
CREATE INDEX charge_billed ON public.charge USING btree (workspace_id, "position", id) WHERE billed;
CREATE INDEX charge_client ON public.charge USING btree (workspace_id, client_id, "position", id);
CREATE INDEX charge_client_period ON public.charge USING btree (workspace_id, client_id, period, "position", id);
CREATE INDEX charge_contractor ON public.charge USING btree (workspace_id, contractor_id, "position", id);
CREATE INDEX charge_invoice ON public.charge USING btree (workspace_id, invoice_id) WHERE (invoice_id IS NOT NULL);
CREATE INDEX charge_list ON public.charge USING btree (workspace_id, "position", id);
CREATE INDEX charge_month ON public.charge USING btree (workspace_id, "left"(day, 7), "position", id) INCLUDE (day, billed, client_id, contractor_id, status, currency, amount, pay_amount);
CREATE INDEX charge_period ON public.charge USING btree (workspace_id, period, "position", id);

CREATE TABLE client (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    base text NOT NULL,
    CONSTRAINT client_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE client IS 'Clients with their contacts (/v1/clients).';
CREATE INDEX client_list ON public.client USING btree (workspace_id, "position", id);

CREATE TABLE client_credit (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    base text NOT NULL,
    CONSTRAINT client_credit_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE client_credit IS 'Credit of clients, without its history (/v1/credits, /v1/clients/{id}/credit).';
COMMENT ON COLUMN client_credit.id IS 'The client''s id. A credit can exist before its client is recorded.';
CREATE INDEX client_credit_list ON public.client_credit USING btree (workspace_id, "position", id);

CREATE TABLE closed_period (
    workspace_id text COLLATE "C" NOT NULL,
    period text COLLATE "C" NOT NULL,
    client_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT closed_period_pkey PRIMARY KEY (workspace_id, period, client_id)
);
COMMENT ON TABLE closed_period IS 'Closed periods, of the whole workspace (client_id is empty) or of one client.';

CREATE TABLE console_audit (
    workspace_id text COLLATE "C" NOT NULL,
    at timestamp with time zone NOT NULL,
    audit_id uuid NOT NULL,
    person text NOT NULL,
    via text NOT NULL,
    action text NOT NULL,
    object_id text NOT NULL,
    object_name text NOT NULL,
    detail text NOT NULL,
    issuer text NOT NULL DEFAULT ''::text,
    subject text NOT NULL DEFAULT ''::text,
    CONSTRAINT console_audit_pkey PRIMARY KEY (workspace_id, at, audit_id),
    CONSTRAINT console_audit_via_check CHECK ((via = ANY (ARRAY['console'::text, 'command'::text, 'service'::text])))
);
COMMENT ON TABLE console_audit IS 'Every change of workspaces, keys, webhooks, read models and settings, and every sign-in: who, when, what. Written in the transaction of the change. UPDATE, DELETE and TRUNCATE are refused.';
COMMENT ON COLUMN console_audit.at IS 'When it was done.';
COMMENT ON COLUMN console_audit.audit_id IS 'Distinguishes changes that were made at the same time.';
COMMENT ON COLUMN console_audit.person IS 'The name of who did it, as in console_session.person; for commands and the service the account and machine that ran them.';
COMMENT ON COLUMN console_audit.via IS 'console, command, or service (a serving process by itself).';
COMMENT ON COLUMN console_audit.action IS 'What was done, such as key.create or webhook.rotate_secret.';
COMMENT ON COLUMN console_audit.object_id IS 'Id of the key, webhook, delivery or entry; empty where the action has none.';
COMMENT ON COLUMN console_audit.object_name IS 'Name or address of the object at that time, readable when the object no longer exists.';
COMMENT ON COLUMN console_audit.detail IS 'The new value, in words; never a secret.';
COMMENT ON COLUMN console_audit.issuer IS 'As in console_session; empty for commands and the service.';
COMMENT ON COLUMN console_audit.subject IS 'As in console_session; empty for commands and the service.';
CREATE TRIGGER console_audit_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.console_audit FOR EACH STATEMENT EXECUTE FUNCTION console_audit_refuse();

CREATE TABLE console_link (
    workspace_id text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    person text NOT NULL,
    role text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT console_link_pkey PRIMARY KEY (workspace_id, hash),
    CONSTRAINT console_link_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT console_link_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT console_link_person_check CHECK ((person <> ''::text)),
    CONSTRAINT console_link_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'admin'::text])))
);
COMMENT ON TABLE console_link IS 'Sign-in links that have not been used. Using a link deletes it, so that it works once.';
COMMENT ON COLUMN console_link.hash IS 'SHA-256 of the token in the link, the only form in which it is kept.';
COMMENT ON COLUMN console_link.person IS 'Name of the person who signs in with the link.';
COMMENT ON COLUMN console_link.role IS 'viewer or admin.';
COMMENT ON COLUMN console_link.expires_at IS 'The link does not work from this time on.';
CREATE INDEX console_link_by_hash ON public.console_link USING btree (hash);
CREATE INDEX console_link_expiry ON public.console_link USING btree (expires_at);

CREATE TABLE console_session (
    workspace_id text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    person text NOT NULL,
    role text NOT NULL,
    grants jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    issuer text NOT NULL DEFAULT ''::text,
    subject text NOT NULL DEFAULT ''::text,
    CONSTRAINT console_session_pkey PRIMARY KEY (workspace_id, hash),
    CONSTRAINT console_session_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT console_session_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT console_session_person_check CHECK ((person <> ''::text)),
    CONSTRAINT console_session_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'admin'::text])))
) WITH (fillfactor=70);
COMMENT ON TABLE console_session IS 'Sessions of the console. A row is deleted when the person signs out, and some time after the session ended.';
COMMENT ON COLUMN console_session.workspace_id IS 'The workspace that the session shows.';
COMMENT ON COLUMN console_session.hash IS 'SHA-256 of the token in the browser''s cookie, the only form in which it is kept.';
COMMENT ON COLUMN console_session.person IS 'Name of the person: a mail address or a name from the identity provider, or the name in a sign-in link.';
COMMENT ON COLUMN console_session.role IS 'viewer (may look) or admin (may change), in this workspace.';
COMMENT ON COLUMN console_session.grants IS 'Array of {workspace, role}: the workspaces that the person may switch to.';
COMMENT ON COLUMN console_session.seen_at IS 'When it was last used, at most a minute late; the idle limit counts from here.';
COMMENT ON COLUMN console_session.expires_at IS 'When the session ends, even if it is in use.';
COMMENT ON COLUMN console_session.issuer IS 'Address of the identity provider that signed the person in; empty for a sign-in link.';
COMMENT ON COLUMN console_session.subject IS 'The identity provider''s id of the person, which never changes; for a sign-in link, the id of the link.';
CREATE INDEX console_session_by_hash ON public.console_session USING btree (hash);
CREATE INDEX console_session_expiry ON public.console_session USING btree (expires_at);

CREATE TABLE contractor (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    base text NOT NULL,
    CONSTRAINT contractor_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE contractor IS 'Contractors (/v1/contractors).';
CREATE INDEX contractor_list ON public.contractor USING btree (workspace_id, "position", id);

CREATE TABLE credit_move (
    workspace_id text COLLATE "C" NOT NULL,
    client_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    base text NOT NULL,
    CONSTRAINT credit_move_pkey PRIMARY KEY (workspace_id, client_id, id)
);
COMMENT ON TABLE credit_move IS 'The history of clients'' credit (/v1/credit-history): one row for each entry.';
CREATE INDEX credit_move_client ON public.credit_move USING btree (workspace_id, client_id, "position", id);
CREATE INDEX credit_move_list ON public.credit_move USING btree (workspace_id, "position", id);

CREATE TABLE cursor_key (
    workspace_id text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    since timestamp with time zone NOT NULL,
    CONSTRAINT cursor_key_pkey PRIMARY KEY (workspace_id, value),
    CONSTRAINT cursor_key_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT cursor_key_value_check CHECK ((octet_length(value) = 32))
);
COMMENT ON TABLE cursor_key IS 'Keys under which other databases sealed cursors of a workspace that has come from there. They open cursors of this workspace only.';
COMMENT ON COLUMN cursor_key.value IS 'The key, derived there from that service''s key and the workspace.';
COMMENT ON COLUMN cursor_key.since IS 'When the workspace came with it.';

CREATE TABLE event_cosignature (
    workspace_id text COLLATE "C" NOT NULL,
    sight text COLLATE "C" NOT NULL,
    witness text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    chain bytea NOT NULL,
    size bigint NOT NULL,
    root bytea NOT NULL,
    line text NOT NULL,
    CONSTRAINT event_cosignature_pkey PRIMARY KEY (workspace_id, sight, witness),
    CONSTRAINT event_cosignature_chain_check CHECK ((octet_length(chain) = 32)),
    CONSTRAINT event_cosignature_check CHECK (((size >= 0) AND (size <= "position"))),
    CONSTRAINT event_cosignature_line_check CHECK (((octet_length(line) >= 1) AND (octet_length(line) <= 1000))),
    CONSTRAINT event_cosignature_position_check CHECK (("position" > 0)),
    CONSTRAINT event_cosignature_root_check CHECK ((octet_length(root) = 32)),
    CONSTRAINT event_cosignature_sight_check CHECK ((sight = ANY (ARRAY['events'::text, 'events-with-pay'::text]))),
    CONSTRAINT event_cosignature_witness_check CHECK (((octet_length(witness) >= 1) AND (octet_length(witness) <= 300)))
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=200, fillfactor=30);
COMMENT ON TABLE event_cosignature IS 'The newest cosignature of each witness of each tree. It is served with the checkpoint that it is of, and with no other.';
COMMENT ON COLUMN event_cosignature.sight IS 'Of which tree it is: event_tree.sight.';
COMMENT ON COLUMN event_cosignature.witness IS 'The name of the witness''s key, a plus and the hash of the key, in hex.';
COMMENT ON COLUMN event_cosignature.origin IS 'The first line of the checkpoint that was cosigned.';
COMMENT ON COLUMN event_cosignature.position IS 'event_tree.position of that checkpoint.';
COMMENT ON COLUMN event_cosignature.chain IS 'event_tree.chain of that checkpoint.';
COMMENT ON COLUMN event_cosignature.size IS 'event_tree.size of that checkpoint: the next proof for this witness begins here.';
COMMENT ON COLUMN event_cosignature.root IS 'event_tree.root of that checkpoint.';
COMMENT ON COLUMN event_cosignature.line IS 'The line of the signed note with the cosignature, with its line feed.';

CREATE TABLE event_log (
    workspace_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    created_at timestamp with time zone NOT NULL,
    data json NOT NULL,
    public_event text,
    chain bytea NOT NULL,
    appended_at timestamp with time zone DEFAULT now(),
    CONSTRAINT event_log_pkey PRIMARY KEY (workspace_id, "position"),
    CONSTRAINT event_log_workspace_id_id_key UNIQUE (workspace_id, id),
    CONSTRAINT event_log_created_at CHECK (((created_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (created_at < '10000-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT event_log_data CHECK (((pg_column_size(data) <= 131072) AND (json_typeof(data) = 'object'::text))),
    CONSTRAINT event_log_id CHECK (((octet_length(id) >= 1) AND (octet_length(id) <= 64) AND (id !~ '[^A-Za-z0-9_-]'::text))),
    CONSTRAINT event_log_position_check CHECK (("position" > 0)),
    CONSTRAINT event_log_public_event CHECK (((octet_length(public_event) <= 65535) AND (public_event !~ '[\x01-\x1f\x7f-\x9f]|(^|[^\\])(\\\\)*\\u0000'::text))),
    CONSTRAINT event_log_type CHECK (((octet_length(type) >= 1) AND (octet_length(type) <= 64) AND (type !~ '[^a-z_.]|^[_.]|[_.]$|[_.][_.]'::text)))
);
COMMENT ON TABLE event_log IS 'The append-only log. UPDATE, DELETE and TRUNCATE are refused.';
COMMENT ON COLUMN event_log.position IS '1, 2, 3, … in its workspace, without a gap, in commit order.';
COMMENT ON COLUMN event_log.created_at IS 'Publish time, in whole milliseconds, never before that of the previous position.';
COMMENT ON COLUMN event_log.data IS 'The fields in canonical form; json, not jsonb, because the chain covers the exact bytes.';
COMMENT ON COLUMN event_log.public_event IS 'The public form, byte for byte as the feed and the webhooks carry it: ids only. Null for internal types. Stored, so that the feed and the webhooks never read data.';
COMMENT ON COLUMN event_log.chain IS 'SHA-256 of the previous chain value and this entry.';
COMMENT ON COLUMN event_log.appended_at IS 'When the transaction that appended it began, by the database''s clock. Not part of the entry: neither the chain nor an export has it.';
CREATE INDEX event_log_feed ON public.event_log USING btree (workspace_id, "position") WHERE (public_event IS NOT NULL);
CREATE INDEX event_log_feed_type ON public.event_log USING btree (workspace_id, type, "position") WHERE (public_event IS NOT NULL);
CREATE TRIGGER event_log_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.event_log FOR EACH STATEMENT EXECUTE FUNCTION event_log_refuse();
CREATE TRIGGER event_log_removes_one AFTER DELETE ON public.event_log REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION event_log_removed();

CREATE TABLE event_rollup (
    workspace_id text COLLATE "C" NOT NULL,
    step smallint NOT NULL,
    at timestamp with time zone NOT NULL,
    events bigint NOT NULL,
    CONSTRAINT event_rollup_pkey PRIMARY KEY (workspace_id, step, at),
    CONSTRAINT event_rollup_step_check CHECK ((step = ANY (ARRAY[1, 60])))
) WITH (fillfactor=80);
COMMENT ON TABLE event_rollup IS 'Events by their publish time, in the intervals of request_rollup.';
COMMENT ON COLUMN event_rollup.step IS 'Length of the interval in minutes.';
COMMENT ON COLUMN event_rollup.at IS 'Start of the interval.';
COMMENT ON COLUMN event_rollup.events IS 'Number of public entries that the read models show.';
CREATE INDEX event_rollup_age ON public.event_rollup USING btree (step, at);

CREATE TABLE event_rollup_cursor (
    workspace_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT event_rollup_cursor_pkey PRIMARY KEY (workspace_id)
) WITH (fillfactor=50);
COMMENT ON TABLE event_rollup_cursor IS 'How far event_rollup has counted each workspace''s log.';

CREATE TABLE event_tile (
    workspace_id text COLLATE "C" NOT NULL,
    sight text COLLATE "C" NOT NULL,
    level smallint NOT NULL,
    tile bigint NOT NULL,
    hashes bytea NOT NULL,
    through bigint,
    CONSTRAINT event_tile_pkey PRIMARY KEY (workspace_id, sight, level, tile),
    CONSTRAINT event_tile_check CHECK (((through IS NOT NULL) = (level = 0))),
    CONSTRAINT event_tile_hashes_check CHECK (((octet_length(hashes) >= 32) AND (octet_length(hashes) <= 8192) AND ((octet_length(hashes) % 32) = 0))),
    CONSTRAINT event_tile_level_check CHECK (((level >= 0) AND (level <= 7))),
    CONSTRAINT event_tile_sight_check CHECK ((sight = ANY (ARRAY['events'::text, 'events-with-pay'::text]))),
    CONSTRAINT event_tile_tile_check CHECK ((tile >= 0))
);
COMMENT ON TABLE event_tile IS 'Tiles of the trees in event_tree: the full ones, which do not change, and at each level the one at the edge, which grows.';
COMMENT ON COLUMN event_tile.sight IS 'Of which tree it is: event_tree.sight.';
COMMENT ON COLUMN event_tile.level IS 'A hash is the root of the subtree of 256^level leaves; at level 0 it is that of a leaf.';
COMMENT ON COLUMN event_tile.tile IS 'Its number at its level: it begins with hash 256 * tile.';
COMMENT ON COLUMN event_tile.hashes IS '1 to 256 hashes of 32 bytes.';
COMMENT ON COLUMN event_tile.through IS 'At level 0, the position in the log of its last leaf; null at others.';
CREATE INDEX event_tile_through ON public.event_tile USING btree (workspace_id, sight, through) WHERE (level = 0);

CREATE TABLE event_tree (
    workspace_id text COLLATE "C" NOT NULL,
    sight text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    chain bytea NOT NULL,
    size bigint NOT NULL,
    root bytea NOT NULL,
    rules smallint NOT NULL,
    CONSTRAINT event_tree_pkey PRIMARY KEY (workspace_id, sight),
    CONSTRAINT event_tree_chain_check CHECK ((octet_length(chain) = 32)),
    CONSTRAINT event_tree_check CHECK (((size >= 0) AND (size <= "position"))),
    CONSTRAINT event_tree_position_check CHECK (("position" > 0)),
    CONSTRAINT event_tree_root_check CHECK ((octet_length(root) = 32)),
    CONSTRAINT event_tree_sight_check CHECK ((sight = ANY (ARRAY['events'::text, 'events-with-pay'::text])))
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=200, fillfactor=30);
COMMENT ON TABLE event_tree IS 'The Merkle trees over the events of each workspace, as far as they are built. A workspace without a row has none yet.';
COMMENT ON COLUMN event_tree.sight IS 'Which events are its leaves: events is those that need no pay:read, so none of payouts and of charges that are not billed to the client; events-with-pay is all.';
COMMENT ON COLUMN event_tree.position IS 'It has the events up to this position of the log.';
COMMENT ON COLUMN event_tree.chain IS 'The chain value of the entry at position.';
COMMENT ON COLUMN event_tree.size IS 'How many leaves it has.';
COMMENT ON COLUMN event_tree.root IS 'Its root (RFC 6962, 2.1).';
COMMENT ON COLUMN event_tree.rules IS 'By which rules events are its leaves. Who writes a tree has to say it, so that versions of other rules cannot.';

CREATE TABLE ingest_position (
    workspace_id text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    stream_created timestamp with time zone,
    moved_at timestamp with time zone,
    holder text,
    held_until timestamp with time zone,
    CONSTRAINT ingest_position_pkey PRIMARY KEY (workspace_id, source),
    CONSTRAINT ingest_position_sequence_check CHECK ((sequence >= 0)),
    CONSTRAINT ingest_position_workspace_id_check CHECK ((workspace_id = '*'::text))
);
COMMENT ON TABLE ingest_position IS 'How far streams of message brokers are ingested. Whatever is after the sequence is read again; entries that the log has are skipped by their ids.';
COMMENT ON COLUMN ingest_position.source IS 'LEDGERFEED_INGEST_NAME.';
COMMENT ON COLUMN ingest_position.sequence IS 'The stream''s sequence of the last message that is in the log or among the dead letters; 0: none.';
COMMENT ON COLUMN ingest_position.stream_created IS 'When the stream was made: another one begins again at sequence 1.';
COMMENT ON COLUMN ingest_position.moved_at IS 'When sequence last moved; null: never.';
COMMENT ON COLUMN ingest_position.holder IS 'The process that reads the stream; the others wait.';
COMMENT ON COLUMN ingest_position.held_until IS 'When another process may take over.';

CREATE TABLE invoice (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    shown boolean NOT NULL,
    client_id text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C",
    period text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    base text NOT NULL,
    pay text NOT NULL,
    margin text NOT NULL,
    number text COLLATE "C",
    reversed boolean,
    open boolean,
    day text COLLATE "C",
    last_day text COLLATE "C",
    currency text COLLATE "C",
    gross_amount bigint,
    credit_applied numeric,
    net_due bigint,
    delivered_value bigint,
    recognized_revenue bigint,
    billable_hours bigint,
    payout_amount bigint,
    margin_amount bigint,
    CONSTRAINT invoice_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE invoice IS 'Invoices, packages and credit notes (/v1/invoices).';
COMMENT ON COLUMN invoice.shown IS 'False for a draft: the projector keeps it, readers do not see it.';
COMMENT ON COLUMN invoice.status IS 'The field client_billing_status.';
COMMENT ON COLUMN invoice.base IS 'Fields for invoices:read.';
COMMENT ON COLUMN invoice.pay IS 'Fields that need pay:read.';
COMMENT ON COLUMN invoice.margin IS 'Fields that need margin:read.';
COMMENT ON COLUMN invoice.number IS 'The field of the same name.';
COMMENT ON COLUMN invoice.reversed IS 'The field of the same name.';
COMMENT ON COLUMN invoice.open IS 'The client has something left to pay.';
COMMENT ON COLUMN invoice.day IS 'First day of the period.';
COMMENT ON COLUMN invoice.last_day IS 'Last day of the period.';
COMMENT ON COLUMN invoice.currency IS 'The field of the same name.';
COMMENT ON COLUMN invoice.gross_amount IS 'In hundredths.';
COMMENT ON COLUMN invoice.credit_applied IS 'In hundredths; a sum of any number of amounts.';
COMMENT ON COLUMN invoice.net_due IS 'In hundredths.';
COMMENT ON COLUMN invoice.delivered_value IS 'In hundredths.';
COMMENT ON COLUMN invoice.recognized_revenue IS 'In hundredths.';
COMMENT ON COLUMN invoice.billable_hours IS 'In ten-thousandths.';
COMMENT ON COLUMN invoice.payout_amount IS 'In hundredths; read only for pay:read.';
COMMENT ON COLUMN invoice.margin_amount IS 'In hundredths; read only for margin:read.';
CREATE INDEX invoice_client ON public.invoice USING btree (workspace_id, client_id, "position", id);
CREATE INDEX invoice_client_period ON public.invoice USING btree (workspace_id, client_id, period, "position", id);
CREATE INDEX invoice_client_status ON public.invoice USING btree (workspace_id, client_id, status, "position", id);
CREATE INDEX invoice_contractor ON public.invoice USING btree (workspace_id, contractor_id, "position", id);
CREATE INDEX invoice_list ON public.invoice USING btree (workspace_id, "position", id);
CREATE INDEX invoice_month ON public.invoice USING btree (workspace_id, (("left"(day, 7) || "left"(last_day, 7))), "position", id) INCLUDE (day, last_day, shown, client_id, contractor_id, status, currency, type, reversed, gross_amount, credit_applied, net_due, delivered_value, recognized_revenue, billable_hours, payout_amount, margin_amount);
CREATE INDEX invoice_number ON public.invoice USING btree (workspace_id, number);
CREATE INDEX invoice_open ON public.invoice USING btree (workspace_id, "position", id) WHERE open;
CREATE INDEX invoice_period ON public.invoice USING btree (workspace_id, period, "position", id);
CREATE INDEX invoice_period_status ON public.invoice USING btree (workspace_id, period, status, "position", id);
CREATE INDEX invoice_status ON public.invoice USING btree (workspace_id, status, "position", id);
CREATE INDEX invoice_type ON public.invoice USING btree (workspace_id, type, "position", id);

CREATE TABLE key_rollup (
    workspace_id text COLLATE "C" NOT NULL,
    step smallint NOT NULL,
    at timestamp with time zone NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    requests bigint NOT NULL,
    client_errors bigint NOT NULL,
    server_errors bigint NOT NULL,
    rate_limited bigint NOT NULL,
    peak bigint NOT NULL,
    refused bigint NOT NULL DEFAULT 0,
    CONSTRAINT key_rollup_pkey PRIMARY KEY (workspace_id, step, at, key_id),
    CONSTRAINT key_rollup_step_check CHECK ((step = ANY (ARRAY[1, 60])))
) WITH (fillfactor=80);
COMMENT ON TABLE key_rollup IS 'Requests of each key, in the intervals of request_rollup.';
COMMENT ON COLUMN key_rollup.step IS 'Length of the interval in minutes.';
COMMENT ON COLUMN key_rollup.at IS 'Start of the interval.';
COMMENT ON COLUMN key_rollup.key_id IS 'The key that was used.';
COMMENT ON COLUMN key_rollup.requests IS 'Requests within the key''s limit.';
COMMENT ON COLUMN key_rollup.client_errors IS 'Those that were answered with a status of 400 to 499.';
COMMENT ON COLUMN key_rollup.server_errors IS 'Those that were answered with a status of 500 or above.';
COMMENT ON COLUMN key_rollup.rate_limited IS 'Requests that were refused because they were over the key''s limit.';
COMMENT ON COLUMN key_rollup.peak IS 'The most requests within the limit in one minute of the interval.';
COMMENT ON COLUMN key_rollup.refused IS 'Requests that were refused for another reason, such as a revoked key.';
CREATE INDEX key_rollup_age ON public.key_rollup USING btree (step, at);

CREATE TABLE log_checkpoint (
    workspace_id text COLLATE "C" NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    position bigint NOT NULL DEFAULT 0,
    moved_at timestamp with time zone,
    failures integer NOT NULL DEFAULT 0,
    failed_to bigint,
    segment_max integer,
    error text,
    retry_at timestamp with time zone,
    quarantined boolean NOT NULL DEFAULT false,
    rules integer NOT NULL DEFAULT 0,
    chain bytea,
    CONSTRAINT log_checkpoint_pkey PRIMARY KEY (workspace_id, consumer),
    CONSTRAINT log_checkpoint_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT log_checkpoint_chain_check CHECK ((octet_length(chain) = 8))
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=200, fillfactor=30);
COMMENT ON TABLE log_checkpoint IS 'The last position that each consumer has handled in each workspace. The position of consumer ''read_models'' is the workspace''s visible position.';
COMMENT ON COLUMN log_checkpoint.consumer IS 'Name of the consumer; read_models is the projector.';
COMMENT ON COLUMN log_checkpoint.position IS 'The last entry whose effect is committed; never moves back.';
COMMENT ON COLUMN log_checkpoint.moved_at IS 'When rows last changed: the position moved, or a rebuild repaired rows. Position and moved_at together are a version of everything that the workspace shows.';
COMMENT ON COLUMN log_checkpoint.failures IS 'Failed attempts since position last moved without a failure.';
COMMENT ON COLUMN log_checkpoint.failed_to IS 'The last position of the segment that failed first. The failure is over when position has reached it.';
COMMENT ON COLUMN log_checkpoint.segment_max IS 'While the consumer narrows down which entry fails: the most entries that the next attempt takes. Null: the usual size.';
COMMENT ON COLUMN log_checkpoint.error IS 'Error of the last attempt; null after a success.';
COMMENT ON COLUMN log_checkpoint.retry_at IS 'The next attempt is not made before this time.';
COMMENT ON COLUMN log_checkpoint.quarantined IS 'True: the entry after position failed repeatedly, alone. The workspace stops before it until it is retried or skipped.';
COMMENT ON COLUMN log_checkpoint.rules IS 'The oldest version of the rules that any of the consumer''s rows in this workspace may have been made by; 0: unknown. A rebuild raises it to the program''s version.';
COMMENT ON COLUMN log_checkpoint.chain IS 'The first 8 bytes of the chain value at position; null: not kept. Consumer groups of other programs keep it.';
CREATE INDEX log_checkpoint_troubled ON public.log_checkpoint USING btree (workspace_id, consumer) WHERE (failures > 0);

CREATE TABLE log_detached (
    workspace_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    subject text COLLATE "C" NOT NULL,
    salt bytea NOT NULL,
    value text NOT NULL,
    CONSTRAINT log_detached_pkey PRIMARY KEY (workspace_id, "position"),
    CONSTRAINT log_detached_salt_check CHECK ((octet_length(salt) = 32)),
    CONSTRAINT log_detached_value_check CHECK (((octet_length(value) <= 131072) AND (json_typeof((value)::json) = 'object'::text)))
);
COMMENT ON TABLE log_detached IS 'The detached fields of entries, which can be forgotten. Rows are never changed.';
COMMENT ON COLUMN log_detached.position IS 'Of the entry.';
COMMENT ON COLUMN log_detached.subject IS 'Whom the fields are about: client:ID, contractor:ID, or both with a space between them.';
COMMENT ON COLUMN log_detached.salt IS '32 random bytes, without which the commitment cannot be compared with a guess.';
COMMENT ON COLUMN log_detached.value IS 'The detached fields that the entry gives, as a JSON object in canonical form; text, because the commitment covers the exact bytes.';
CREATE TRIGGER log_detached_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON public.log_detached FOR EACH STATEMENT EXECUTE FUNCTION log_detached_refuse();
CREATE TRIGGER log_detached_removes_one AFTER DELETE ON public.log_detached REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION event_log_removed();

CREATE TABLE log_failure (
    workspace_id text COLLATE "C" NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    from_position bigint NOT NULL,
    through_position bigint NOT NULL,
    error_digest text COLLATE "C" NOT NULL,
    error text NOT NULL,
    times bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    CONSTRAINT log_failure_pkey PRIMARY KEY (workspace_id, consumer, from_position, through_position, error_digest),
    CONSTRAINT log_failure_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id)
);
COMMENT ON TABLE log_failure IS 'The history of segments that a consumer failed to handle: one row for each segment and error.';
COMMENT ON COLUMN log_failure.consumer IS 'As in log_checkpoint.';
COMMENT ON COLUMN log_failure.from_position IS 'First position of the segment.';
COMMENT ON COLUMN log_failure.through_position IS 'Last position of the segment.';
COMMENT ON COLUMN log_failure.error_digest IS 'MD5 of error, which can be too long for a key.';
COMMENT ON COLUMN log_failure.error IS 'The consumer''s error.';
COMMENT ON COLUMN log_failure.times IS 'How often it happened.';
COMMENT ON COLUMN log_failure.first_at IS 'When it first happened.';
COMMENT ON COLUMN log_failure.last_at IS 'When it last happened.';

CREATE TABLE log_forgotten (
    workspace_id text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    reached bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL DEFAULT 0,
    ended_at timestamp with time zone,
    CONSTRAINT log_forgotten_pkey PRIMARY KEY (workspace_id, subject, "position")
);
COMMENT ON TABLE log_forgotten IS 'Who was forgotten, and how far the deletion of detached values has come. log_append writes it with the entry.';
COMMENT ON COLUMN log_forgotten.subject IS 'client:ID or contractor:ID.';
COMMENT ON COLUMN log_forgotten.position IS 'Of the entry that forgets. Values of entries before it are deleted.';
COMMENT ON COLUMN log_forgotten.reached IS 'Position up to which the values are deleted.';
COMMENT ON COLUMN log_forgotten.deleted IS 'How many values were deleted.';
COMMENT ON COLUMN log_forgotten.ended_at IS 'When no value was left; null: the deletion goes on.';
CREATE INDEX log_forgotten_pending ON public.log_forgotten USING btree (workspace_id, "position") WHERE (ended_at IS NULL);

CREATE TABLE log_head (
    workspace_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    chain bytea NOT NULL,
    closed_until timestamp with time zone,
    CONSTRAINT log_head_pkey PRIMARY KEY (workspace_id),
    CONSTRAINT log_head_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT log_head_chain_check CHECK ((octet_length(chain) = 32)),
    CONSTRAINT log_head_position_check CHECK (("position" >= 0))
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=200, fillfactor=30);
COMMENT ON TABLE log_head IS 'The newest entry of each workspace. Appends lock its row, which makes positions gapless and puts them in commit order.';
COMMENT ON COLUMN log_head.position IS 'Position of the newest entry; 0 before the first.';
COMMENT ON COLUMN log_head.created_at IS 'Publish time of the newest entry; -infinity before the first. The next one is never before it.';
COMMENT ON COLUMN log_head.chain IS 'Chain value of the newest entry; SHA-256 of the workspace id before the first.';
COMMENT ON COLUMN log_head.closed_until IS 'Appends are refused until then, by the database''s clock: for seconds while the workspace is fenced for a move, and infinity where it is being received, or has moved away. Null: they are not.';

CREATE TABLE log_skip (
    workspace_id text COLLATE "C" NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    error text NOT NULL,
    reason text NOT NULL,
    skipped_at timestamp with time zone NOT NULL,
    CONSTRAINT log_skip_pkey PRIMARY KEY (workspace_id, consumer, "position"),
    CONSTRAINT log_skip_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT log_skip_reason_given CHECK ((reason <> ''::text))
);
COMMENT ON TABLE log_skip IS 'Entries that an operator made a consumer skip. They have no effect, in a rebuild either.';
COMMENT ON COLUMN log_skip.consumer IS 'As in log_checkpoint.';
COMMENT ON COLUMN log_skip.error IS 'Why the consumer could not handle the entry.';
COMMENT ON COLUMN log_skip.reason IS 'The operator''s reason for skipping it.';
COMMENT ON COLUMN log_skip.skipped_at IS 'When it was skipped.';

CREATE UNLOGGED TABLE log_under_way (
    workspace_id text COLLATE "C" NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    through bigint NOT NULL,
    process text NOT NULL,
    server_started timestamp with time zone NOT NULL,
    under_way boolean NOT NULL,
    deaths integer NOT NULL,
    suspect_to bigint NOT NULL,
    CONSTRAINT log_under_way_pkey PRIMARY KEY (workspace_id, consumer)
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=200, fillfactor=30);
COMMENT ON TABLE log_under_way IS 'The segment of each workspace that a consumer began to handle last. While position is that of the checkpoint and no transaction holds that, a segment under way is one whose process ended.';
COMMENT ON COLUMN log_under_way.consumer IS 'As in log_checkpoint.';
COMMENT ON COLUMN log_under_way.position IS 'The checkpoint before the segment.';
COMMENT ON COLUMN log_under_way.through IS 'Last position of the segment.';
COMMENT ON COLUMN log_under_way.process IS 'Who handles it: a name that no other process has.';
COMMENT ON COLUMN log_under_way.server_started IS 'When the database server had started then. Its end also ends what is under way, and that says nothing about the entries.';
COMMENT ON COLUMN log_under_way.under_way IS 'False when the handling failed or was stopped in an orderly way.';
COMMENT ON COLUMN log_under_way.deaths IS 'How many processes in a row ended while they handled a segment after this position.';
COMMENT ON COLUMN log_under_way.suspect_to IS 'Up to this position entries are handled one by one, because a process ended while it handled them.';

CREATE TABLE payment (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    direction text COLLATE "C" NOT NULL,
    client_id text COLLATE "C",
    contractor_id text COLLATE "C",
    base text NOT NULL,
    invoice_id text COLLATE "C",
    day text COLLATE "C",
    currency text COLLATE "C",
    amount bigint,
    CONSTRAINT payment_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE payment IS 'Confirmed payments, both directions (/v1/payments).';
COMMENT ON COLUMN payment.direction IS 'received_from_client, or paid_to_contractor, which is shown only with pay:read.';
COMMENT ON COLUMN payment.invoice_id IS 'The field of the same name.';
COMMENT ON COLUMN payment.day IS 'Day of confirmed_at, in UTC.';
COMMENT ON COLUMN payment.currency IS 'The field of the same name.';
COMMENT ON COLUMN payment.amount IS 'In hundredths.';
CREATE INDEX payment_client ON public.payment USING btree (workspace_id, client_id, "position", id) WHERE (client_id IS NOT NULL);
CREATE INDEX payment_client_direction ON public.payment USING btree (workspace_id, client_id, direction, "position", id) WHERE (client_id IS NOT NULL);
CREATE INDEX payment_contractor ON public.payment USING btree (workspace_id, contractor_id) WHERE (contractor_id IS NOT NULL);
CREATE INDEX payment_direction ON public.payment USING btree (workspace_id, direction, "position", id);
CREATE INDEX payment_invoice ON public.payment USING btree (workspace_id, invoice_id) WHERE (invoice_id IS NOT NULL);
CREATE INDEX payment_list ON public.payment USING btree (workspace_id, "position", id);
CREATE INDEX payment_month ON public.payment USING btree (workspace_id, "left"(day, 7), "position", id) INCLUDE (day, direction, client_id, contractor_id, currency, amount);

CREATE TABLE producer (
    workspace_id text COLLATE "C" NOT NULL,
    producer_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    types text[],
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    CONSTRAINT producer_pkey PRIMARY KEY (workspace_id, producer_id),
    CONSTRAINT producer_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT producer_name_given CHECK ((name <> ''::text))
);
COMMENT ON TABLE producer IS 'Keys of producers that append over HTTP: a row for each workspace of a key. A revoked key stays listed.';
COMMENT ON COLUMN producer.producer_id IS 'producer_ and a UUIDv7, the same in all workspaces of the key, and through rotations.';
COMMENT ON COLUMN producer.types IS 'The entry types that the key may append; null: all.';
COMMENT ON COLUMN producer.revoked_at IS 'When the key was revoked; null: it was not.';
CREATE INDEX producer_by_id ON public.producer USING btree (producer_id);

CREATE TABLE producer_secret (
    workspace_id text COLLATE "C" NOT NULL,
    producer_id text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    prefix text COLLATE "C" NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ends_at timestamp with time zone,
    CONSTRAINT producer_secret_pkey PRIMARY KEY (workspace_id, producer_id, hash),
    CONSTRAINT producer_secret_workspace_id_producer_id_fkey FOREIGN KEY (workspace_id, producer_id) REFERENCES producer(workspace_id, producer_id),
    CONSTRAINT producer_secret_hash_length CHECK ((octet_length(hash) = 32))
);
COMMENT ON TABLE producer_secret IS 'Secrets of producers'' keys. A rotation without an overlap deletes the older ones.';
COMMENT ON COLUMN producer_secret.producer_id IS 'Key that the secret opens.';
COMMENT ON COLUMN producer_secret.hash IS 'SHA-256 of the full text of the key, the only form in which the secret is kept.';
COMMENT ON COLUMN producer_secret.prefix IS 'Public beginning of the key.';
COMMENT ON COLUMN producer_secret.ends_at IS 'From this time on the secret is refused, because a rotation replaced it; null: it is the key''s newest.';
CREATE INDEX producer_secret_by_hash ON public.producer_secret USING btree (hash);

CREATE UNLOGGED TABLE rate_count (
    workspace_id text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    minute bigint NOT NULL,
    taken bigint NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT rate_count_pkey PRIMARY KEY (workspace_id, subject)
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=500, fillfactor=50);
COMMENT ON TABLE rate_count IS 'Requests of each key, and refused keys of each address, in the current clock minute. Every instance adds to it and reads it a few times a second.';
COMMENT ON COLUMN rate_count.workspace_id IS 'Workspace of the key; * for addresses.';
COMMENT ON COLUMN rate_count.subject IS 'Key id, or address (of IPv6 the network of 64 bits).';
COMMENT ON COLUMN rate_count.minute IS 'The clock minute that is counted: minutes since 1970.';
COMMENT ON COLUMN rate_count.taken IS 'Total of all instances.';
COMMENT ON COLUMN rate_count.changed_at IS 'By the database''s clock; instances read what changed since their last read.';

CREATE TABLE removed_billed_charge (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    client_id text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C",
    period text COLLATE "C" NOT NULL,
    base text NOT NULL,
    day text COLLATE "C",
    CONSTRAINT removed_billed_charge_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE removed_billed_charge IS 'Charges that were billed to the client and then deleted or no longer billed, for keys without pay:read (/v1/charges?include=removed).';
COMMENT ON COLUMN removed_billed_charge.day IS 'That which the row had last.';
CREATE INDEX removed_billed_charge_client ON public.removed_billed_charge USING btree (workspace_id, client_id, "position", id);
CREATE INDEX removed_billed_charge_contractor ON public.removed_billed_charge USING btree (workspace_id, contractor_id, "position", id);
CREATE INDEX removed_billed_charge_list ON public.removed_billed_charge USING btree (workspace_id, "position", id);
CREATE INDEX removed_billed_charge_month ON public.removed_billed_charge USING btree (workspace_id, "left"(day, 7), "position", id);
CREATE INDEX removed_billed_charge_period ON public.removed_billed_charge USING btree (workspace_id, period, "position", id);

CREATE TABLE removed_charge (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    client_id text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C",
    period text COLLATE "C" NOT NULL,
    base text NOT NULL,
    day text COLLATE "C",
    CONSTRAINT removed_charge_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE removed_charge IS 'Charges that were deleted, for keys with pay:read (/v1/charges?include=removed).';
COMMENT ON COLUMN removed_charge.day IS 'That which the row had last.';
CREATE INDEX removed_charge_client ON public.removed_charge USING btree (workspace_id, client_id, "position", id);
CREATE INDEX removed_charge_contractor ON public.removed_charge USING btree (workspace_id, contractor_id, "position", id);
CREATE INDEX removed_charge_list ON public.removed_charge USING btree (workspace_id, "position", id);
CREATE INDEX removed_charge_month ON public.removed_charge USING btree (workspace_id, "left"(day, 7), "position", id);
CREATE INDEX removed_charge_period ON public.removed_charge USING btree (workspace_id, period, "position", id);

CREATE TABLE removed_time_entry (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    client_id text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C" NOT NULL,
    period text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    base text NOT NULL,
    day text COLLATE "C",
    CONSTRAINT removed_time_entry_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE removed_time_entry IS 'Time entries that were deleted (/v1/time-entries?include=removed).';
COMMENT ON COLUMN removed_time_entry.position IS 'Of the entry that deleted it.';
COMMENT ON COLUMN removed_time_entry.status IS 'Like the other columns that filters ask for: as it was when it left.';
COMMENT ON COLUMN removed_time_entry.day IS 'That which the row had last.';
CREATE INDEX removed_time_entry_client ON public.removed_time_entry USING btree (workspace_id, client_id, "position", id);
CREATE INDEX removed_time_entry_contractor ON public.removed_time_entry USING btree (workspace_id, contractor_id, "position", id);
CREATE INDEX removed_time_entry_list ON public.removed_time_entry USING btree (workspace_id, "position", id);
CREATE INDEX removed_time_entry_month ON public.removed_time_entry USING btree (workspace_id, "left"(day, 7), "position", id);
CREATE INDEX removed_time_entry_period ON public.removed_time_entry USING btree (workspace_id, period, "position", id);
CREATE INDEX removed_time_entry_status ON public.removed_time_entry USING btree (workspace_id, status, "position", id);

CREATE TABLE replay_audit (
    workspace_id text COLLATE "C" NOT NULL,
    audited_at timestamp with time zone,
    position bigint,
    differences bigint,
    error text,
    claimed_until timestamp with time zone,
    CONSTRAINT replay_audit_pkey PRIMARY KEY (workspace_id),
    CONSTRAINT replay_audit_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id)
);
COMMENT ON TABLE replay_audit IS 'When each workspace''s rows were last compared with a fold of its log in the background, and the result.';
COMMENT ON COLUMN replay_audit.audited_at IS 'When the last audit ended; null before the first.';
COMMENT ON COLUMN replay_audit.position IS 'The checkpoint at which the rows were compared.';
COMMENT ON COLUMN replay_audit.differences IS 'Number of differences that the last audit found; null when it did not finish.';
COMMENT ON COLUMN replay_audit.error IS 'Why the last audit did not finish.';
COMMENT ON COLUMN replay_audit.claimed_until IS 'Until this time an instance is auditing the workspace; it extends the time while it works.';

CREATE TABLE request_log (
    slot smallint NOT NULL,
    workspace_id text COLLATE "C" NOT NULL,
    at timestamp with time zone NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    key_prefix text COLLATE "C" NOT NULL,
    method text COLLATE "C" NOT NULL,
    route text COLLATE "C" NOT NULL,
    status smallint NOT NULL,
    duration_us bigint NOT NULL,
    bytes bigint NOT NULL,
    row_count integer NOT NULL,
    record_id uuid NOT NULL,
    path text COLLATE "C",
    address inet,
    user_agent text COLLATE "C",
    problem jsonb,
    CONSTRAINT request_log_pkey PRIMARY KEY (workspace_id, at, record_id, slot)
) PARTITION BY LIST (slot);
COMMENT ON TABLE request_log IS 'Requests that passed the checks of the key and its rate limit, written in batches after they were answered.';
COMMENT ON COLUMN request_log.slot IS 'Days since 1970 (UTC) modulo 32: the partition.';
COMMENT ON COLUMN request_log.at IS 'When the request arrived.';
COMMENT ON COLUMN request_log.request_id IS 'As in X-Request-Id: can be the caller''s own, so it is not unique.';
COMMENT ON COLUMN request_log.key_id IS 'The key that was used.';
COMMENT ON COLUMN request_log.key_prefix IS 'Public beginning of the key''s secret that was used.';
COMMENT ON COLUMN request_log.method IS 'GET, HEAD or OPTIONS.';
COMMENT ON COLUMN request_log.route IS 'Pattern of the path, such as /v1/invoices/{id}; empty for unknown paths.';
COMMENT ON COLUMN request_log.duration_us IS 'Microseconds from the first check to the end of the answer.';
COMMENT ON COLUMN request_log.bytes IS 'Size of the body as sent.';
COMMENT ON COLUMN request_log.row_count IS 'Rows in the answer.';
COMMENT ON COLUMN request_log.record_id IS 'Made by the instance; distinguishes requests that arrived at the same time.';
COMMENT ON COLUMN request_log.path IS 'The path as it was sent, percent-encoded, at most 256 bytes (a longer one ends with …); NULL where it is the route. Never a query, never anything in the form of a key.';
COMMENT ON COLUMN request_log.address IS 'Address of the caller, behind trusted proxies the one that they name.';
COMMENT ON COLUMN request_log.user_agent IS 'The header User-Agent, at most 200 bytes; NULL where there is none. Never anything in the form of a key.';
COMMENT ON COLUMN request_log.problem IS 'What an error said: title, detail, errors (field, message) and permission, as far as it has them; NULL for other answers. Never a value of a parameter.';
CREATE INDEX request_log_error ON ONLY public.request_log USING btree (workspace_id, at, record_id) WHERE (status >= 400);
CREATE INDEX request_log_key ON ONLY public.request_log USING btree (workspace_id, key_id, at);
CREATE INDEX request_log_path ON ONLY public.request_log USING btree (workspace_id, path, at) WHERE (path IS NOT NULL);
CREATE INDEX request_log_request ON ONLY public.request_log USING btree (workspace_id, request_id, at);

CREATE TABLE request_log_00 PARTITION OF request_log FOR VALUES IN ('0');

CREATE TABLE request_log_01 PARTITION OF request_log FOR VALUES IN ('1');

CREATE TABLE request_log_02 PARTITION OF request_log FOR VALUES IN ('2');

CREATE TABLE request_log_03 PARTITION OF request_log FOR VALUES IN ('3');

CREATE TABLE request_log_04 PARTITION OF request_log FOR VALUES IN ('4');

CREATE TABLE request_log_05 PARTITION OF request_log FOR VALUES IN ('5');

CREATE TABLE request_log_06 PARTITION OF request_log FOR VALUES IN ('6');

CREATE TABLE request_log_07 PARTITION OF request_log FOR VALUES IN ('7');

CREATE TABLE request_log_08 PARTITION OF request_log FOR VALUES IN ('8');

CREATE TABLE request_log_09 PARTITION OF request_log FOR VALUES IN ('9');

CREATE TABLE request_log_10 PARTITION OF request_log FOR VALUES IN ('10');

CREATE TABLE request_log_11 PARTITION OF request_log FOR VALUES IN ('11');

CREATE TABLE request_log_12 PARTITION OF request_log FOR VALUES IN ('12');

CREATE TABLE request_log_13 PARTITION OF request_log FOR VALUES IN ('13');

CREATE TABLE request_log_14 PARTITION OF request_log FOR VALUES IN ('14');

CREATE TABLE request_log_15 PARTITION OF request_log FOR VALUES IN ('15');

CREATE TABLE request_log_16 PARTITION OF request_log FOR VALUES IN ('16');

CREATE TABLE request_log_17 PARTITION OF request_log FOR VALUES IN ('17');

CREATE TABLE request_log_18 PARTITION OF request_log FOR VALUES IN ('18');

CREATE TABLE request_log_19 PARTITION OF request_log FOR VALUES IN ('19');

CREATE TABLE request_log_20 PARTITION OF request_log FOR VALUES IN ('20');

CREATE TABLE request_log_21 PARTITION OF request_log FOR VALUES IN ('21');

CREATE TABLE request_log_22 PARTITION OF request_log FOR VALUES IN ('22');

CREATE TABLE request_log_23 PARTITION OF request_log FOR VALUES IN ('23');

CREATE TABLE request_log_24 PARTITION OF request_log FOR VALUES IN ('24');

CREATE TABLE request_log_25 PARTITION OF request_log FOR VALUES IN ('25');

CREATE TABLE request_log_26 PARTITION OF request_log FOR VALUES IN ('26');

CREATE TABLE request_log_27 PARTITION OF request_log FOR VALUES IN ('27');

CREATE TABLE request_log_28 PARTITION OF request_log FOR VALUES IN ('28');

CREATE TABLE request_log_29 PARTITION OF request_log FOR VALUES IN ('29');

CREATE TABLE request_log_30 PARTITION OF request_log FOR VALUES IN ('30');

CREATE TABLE request_log_31 PARTITION OF request_log FOR VALUES IN ('31');

CREATE TABLE request_refused (
    workspace_id text COLLATE "C" NOT NULL,
    minute timestamp with time zone NOT NULL,
    reason text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    refused bigint NOT NULL,
    CONSTRAINT request_refused_pkey PRIMARY KEY (workspace_id, minute, reason, key_id)
);
COMMENT ON TABLE request_refused IS 'How many requests were refused in each minute, by reason; kept as long as request_log.';
COMMENT ON COLUMN request_refused.workspace_id IS 'Workspace of the key; * when the request had no key of a workspace.';
COMMENT ON COLUMN request_refused.minute IS 'Start of the clock minute.';
COMMENT ON COLUMN request_refused.reason IS 'method, headers, not_http, key_in_url, slow_down, rate_limit, or why a key was refused: missing, malformed, unknown, revoked, rotated, expired.';
COMMENT ON COLUMN request_refused.key_id IS 'The key in the request; empty when there was none.';
COMMENT ON COLUMN request_refused.refused IS 'Number of refused requests, of all instances.';

CREATE TABLE request_rollup (
    workspace_id text COLLATE "C" NOT NULL,
    step smallint NOT NULL,
    at timestamp with time zone NOT NULL,
    route_class text COLLATE "C" NOT NULL,
    status_class smallint NOT NULL,
    requests bigint NOT NULL,
    latency integer[] NOT NULL,
    CONSTRAINT request_rollup_pkey PRIMARY KEY (workspace_id, step, at, route_class, status_class),
    CONSTRAINT request_rollup_step_check CHECK ((step = ANY (ARRAY[1, 60])))
) WITH (fillfactor=80);
COMMENT ON TABLE request_rollup IS 'Requests of the API by minute, kept for some hours, and by hour, kept for 31 days.';
COMMENT ON COLUMN request_rollup.step IS 'Length of the interval in minutes.';
COMMENT ON COLUMN request_rollup.at IS 'Start of the interval.';
COMMENT ON COLUMN request_rollup.route_class IS 'list, object, events or other.';
COMMENT ON COLUMN request_rollup.status_class IS 'First digit of the status; 0: refused before it was looked at more closely.';
COMMENT ON COLUMN request_rollup.requests IS 'Number of requests.';
COMMENT ON COLUMN request_rollup.latency IS 'How many took how long, by the bounds in internal/rollup; empty for refused ones.';
CREATE INDEX request_rollup_age ON public.request_rollup USING btree (step, at);

CREATE TABLE secret_key (
    workspace_id text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    state text NOT NULL,
    since timestamp with time zone NOT NULL,
    CONSTRAINT secret_key_pkey PRIMARY KEY (workspace_id, fingerprint),
    CONSTRAINT secret_key_fingerprint_check CHECK ((octet_length(fingerprint) = 8)),
    CONSTRAINT secret_key_state_check CHECK ((state = ANY (ARRAY['sealing'::text, 'former'::text, 'lost'::text]))),
    CONSTRAINT secret_key_workspace_id_check CHECK ((workspace_id = '*'::text))
);
COMMENT ON TABLE secret_key IS 'Fingerprints of the keys of webhooks'' secrets, which are outside of the database.';
COMMENT ON COLUMN secret_key.fingerprint IS 'The first 8 bytes of every secret sealed under the key.';
COMMENT ON COLUMN secret_key.state IS 'sealing: every process seals under this one; former: replaced by a rotation; lost: given up, and what is sealed under it cannot be opened any more.';
COMMENT ON COLUMN secret_key.since IS 'When it got into this state.';
CREATE UNIQUE INDEX secret_key_sealing ON public.secret_key USING btree (workspace_id) WHERE (state = 'sealing'::text);

CREATE TABLE service_key (
    workspace_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    CONSTRAINT service_key_pkey PRIMARY KEY (workspace_id, name),
    CONSTRAINT service_key_value_check CHECK ((octet_length(value) = 32)),
    CONSTRAINT service_key_workspace_id_check CHECK ((workspace_id = '*'::text))
);
COMMENT ON TABLE service_key IS 'Random keys that all instances of the service share. None decrypts customers'' secrets: the keys for those are not in the database.';
COMMENT ON COLUMN service_key.workspace_id IS 'Always *, which stands for all workspaces.';
COMMENT ON COLUMN service_key.name IS 'Purpose of the key: cursor (encrypts cursors and keys ETags of the API).';
COMMENT ON COLUMN service_key.value IS '32 random bytes.';

CREATE TABLE service_setting (
    workspace_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT service_setting_pkey PRIMARY KEY (workspace_id, name),
    CONSTRAINT service_setting_workspace_id_check CHECK ((workspace_id = '*'::text))
);
COMMENT ON TABLE service_setting IS 'Settings with which serving processes were last started, where a change decides what is kept; a change is in the audit.';
COMMENT ON COLUMN service_setting.name IS 'Which: retention.';
COMMENT ON COLUMN service_setting.value IS 'The value, as Go writes it; retention: a duration such as 720h0m0s.';
COMMENT ON COLUMN service_setting.changed_at IS 'When it got this value.';

CREATE TABLE time_entry (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    client_id text COLLATE "C" NOT NULL,
    contractor_id text COLLATE "C" NOT NULL,
    invoice_id text COLLATE "C",
    period text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    base text NOT NULL,
    pay text NOT NULL,
    day text COLLATE "C",
    currency text COLLATE "C",
    hours bigint,
    session_count bigint,
    bill_amount bigint,
    pay_amount bigint,
    CONSTRAINT time_entry_pkey PRIMARY KEY (workspace_id, id)
);
COMMENT ON TABLE time_entry IS 'Time entries (/v1/time-entries).';
COMMENT ON COLUMN time_entry.day IS 'The field work_date.';
COMMENT ON COLUMN time_entry.currency IS 'The field of the same name.';
COMMENT ON COLUMN time_entry.hours IS 'In ten-thousandths.';
COMMENT ON COLUMN time_entry.session_count IS 'The field of the same name.';
COMMENT ON COLUMN time_entry.bill_amount IS 'In hundredths.';
COMMENT ON COLUMN time_entry.pay_amount IS 'In hundredths; read only for pay:read.';
CREATE INDEX time_entry_client ON public.time_entry USING btree (workspace_id, client_id, "position", id);
CREATE INDEX time_entry_client_period ON public.time_entry USING btree (workspace_id, client_id, period, "position", id);
CREATE INDEX time_entry_client_status ON public.time_entry USING btree (workspace_id, client_id, status, "position", id);
CREATE INDEX time_entry_contractor ON public.time_entry USING btree (workspace_id, contractor_id, "position", id);
CREATE INDEX time_entry_contractor_period ON public.time_entry USING btree (workspace_id, contractor_id, period, "position", id);
CREATE INDEX time_entry_invoice ON public.time_entry USING btree (workspace_id, invoice_id) WHERE (invoice_id IS NOT NULL);
CREATE INDEX time_entry_list ON public.time_entry USING btree (workspace_id, "position", id);
CREATE INDEX time_entry_month ON public.time_entry USING btree (workspace_id, "left"(day, 7), "position", id) INCLUDE (day, client_id, contractor_id, status, currency, hours, session_count, bill_amount, pay_amount);
CREATE INDEX time_entry_period ON public.time_entry USING btree (workspace_id, period, "position", id);
CREATE INDEX time_entry_status ON public.time_entry USING btree (workspace_id, status, "position", id);

CREATE TABLE webhook (
    workspace_id text COLLATE "C" NOT NULL,
    webhook_id text COLLATE "C" NOT NULL,
    url text NOT NULL,
    events text[],
    state text COLLATE "C" NOT NULL DEFAULT 'on'::text,
    created_at timestamp with time zone NOT NULL,
    secret bytea NOT NULL,
    old_secret bytea,
    old_secret_until timestamp with time zone,
    version integer NOT NULL DEFAULT 1,
    epoch integer NOT NULL DEFAULT 1,
    failing_since timestamp with time zone,
    warned integer NOT NULL DEFAULT 0,
    turned_off_at timestamp with time zone,
    turned_off_for text,
    name text NOT NULL DEFAULT ''::text,
    description text NOT NULL DEFAULT ''::text,
    standard_headers boolean NOT NULL DEFAULT false,
    paused_at timestamp with time zone,
    pause_epoch integer,
    kept_epoch integer,
    older_secrets bytea[] NOT NULL DEFAULT '{}'::bytea[],
    older_secrets_until timestamp with time zone[] NOT NULL DEFAULT '{}'::timestamp with time zone[],
    url_version integer NOT NULL DEFAULT 0,
    turned_off_since timestamp with time zone,
    failures jsonb NOT NULL DEFAULT '{}'::jsonb,
    turned_off_reason text COLLATE "C",
    CONSTRAINT webhook_pkey PRIMARY KEY (workspace_id, webhook_id),
    CONSTRAINT webhook_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT webhook_description_check CHECK ((char_length(description) <= 500)),
    CONSTRAINT webhook_name_check CHECK ((char_length(name) <= 100)),
    CONSTRAINT webhook_older_secrets_check CHECK ((cardinality(older_secrets) = cardinality(older_secrets_until))),
    CONSTRAINT webhook_state_check CHECK ((state = ANY (ARRAY['on'::text, 'off'::text, 'paused'::text]))),
    CONSTRAINT webhook_turned_off_reason_check CHECK ((turned_off_reason = ANY (ARRAY['failing'::text, 'gone'::text])))
) WITH (fillfactor=60);
COMMENT ON TABLE webhook IS 'Addresses that events are sent to, at most five for a workspace.';
COMMENT ON COLUMN webhook.webhook_id IS 'wh_ and a UUIDv7.';
COMMENT ON COLUMN webhook.events IS 'The chosen event types; null: all, including those of later versions.';
COMMENT ON COLUMN webhook.state IS 'on, off or paused.';
COMMENT ON COLUMN webhook.secret IS 'The signing secret, sealed with AES-256-GCM: key id (8 bytes), nonce (12), ciphertext and tag. Bound to workspace and webhook.';
COMMENT ON COLUMN webhook.old_secret IS 'The secret before the last rotation, sealed in the same way; it signs too until old_secret_until.';
COMMENT ON COLUMN webhook.old_secret_until IS 'Until then messages are signed with the old secret as well; null: there was no rotation.';
COMMENT ON COLUMN webhook.version IS 'Raised by every change that a user makes, so that the dispatcher reads the row again.';
COMMENT ON COLUMN webhook.epoch IS 'Raised when it is turned off, on, or paused. What was decided or is pending under an epoch from before it was last turned off or on is cancelled.';
COMMENT ON COLUMN webhook.failing_since IS 'The first failed attempt after the last success, or after it was turned on or resumed, or its address was changed; null: it is not failing.';
COMMENT ON COLUMN webhook.warned IS 'Warnings that were due since failing_since.';
COMMENT ON COLUMN webhook.turned_off_at IS 'When it was turned off because attempts failed; null while on.';
COMMENT ON COLUMN webhook.turned_off_for IS 'The last failure before it was turned off, in words.';
COMMENT ON COLUMN webhook.description IS 'What it is for, in the words of its owner; empty: nothing was said.';
COMMENT ON COLUMN webhook.standard_headers IS 'Its messages have webhook-id, webhook-timestamp and webhook-signature (standardwebhooks.com), too.';
COMMENT ON COLUMN webhook.paused_at IS 'When it was paused; null while it is not.';
COMMENT ON COLUMN webhook.pause_epoch IS 'The epoch that it got when it was last paused; null: never.';
COMMENT ON COLUMN webhook.kept_epoch IS 'As long as its epoch is pause_epoch: what is pending under this epoch or a later one is not cancelled.';
COMMENT ON COLUMN webhook.older_secrets IS 'The secrets before old_secret that still signed at the last rotation, newest first, sealed in the same way.';
COMMENT ON COLUMN webhook.older_secrets_until IS 'Until when each of older_secrets signs, in the same order.';
COMMENT ON COLUMN webhook.url_version IS 'The version that it got when its address was last changed; 0: never. Failures of attempts that were started under an earlier one do not count.';
COMMENT ON COLUMN webhook.turned_off_since IS 'Since when every attempt had failed when it was turned off; null while on.';
COMMENT ON COLUMN webhook.failures IS 'What the rules for turning it off remember of the attempts since failing_since; see delivery/policy.';
COMMENT ON COLUMN webhook.turned_off_reason IS 'failing: no attempt had succeeded for long. gone: the receiver answered 410. Null while on.';
CREATE INDEX webhook_by_id ON public.webhook USING btree (webhook_id);

CREATE TABLE webhook_cursor (
    workspace_id text COLLATE "C" NOT NULL,
    webhook_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    replay_position bigint,
    replay_until bigint,
    holder text COLLATE "C",
    expired bigint NOT NULL DEFAULT 0,
    CONSTRAINT webhook_cursor_pkey PRIMARY KEY (workspace_id, webhook_id),
    CONSTRAINT webhook_cursor_workspace_id_webhook_id_fkey FOREIGN KEY (workspace_id, webhook_id) REFERENCES webhook(workspace_id, webhook_id) ON DELETE CASCADE,
    CONSTRAINT webhook_cursor_check CHECK (((replay_position IS NULL) = (replay_until IS NULL))),
    CONSTRAINT webhook_cursor_position_check CHECK (("position" >= 0))
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=200, fillfactor=30);
COMMENT ON TABLE webhook_cursor IS 'How far each webhook has come in its workspace''s log, and which process delivers to it.';
COMMENT ON COLUMN webhook_cursor.position IS 'Every entry up to here was sent to the webhook once, or is not for it. Later ones that have a row in webhook_delivery were sent, too.';
COMMENT ON COLUMN webhook_cursor.replay_position IS 'While missed events are sent: all of them up to here are done.';
COMMENT ON COLUMN webhook_cursor.replay_until IS 'The last position of the missed events; null: none are being sent.';
COMMENT ON COLUMN webhook_cursor.holder IS 'The webhook_instance that delivers to it, as long as the lease of that lasts; null: none does.';
COMMENT ON COLUMN webhook_cursor.expired IS 'How many events up to position, and up to replay_position, were past the retention when their turn came, and were not sent.';
CREATE INDEX webhook_cursor_held ON public.webhook_cursor USING btree (holder) WHERE (holder IS NOT NULL);

CREATE TABLE webhook_delivery (
    workspace_id text COLLATE "C" NOT NULL,
    webhook_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    next_attempt_at timestamp with time zone,
    attempts jsonb NOT NULL,
    CONSTRAINT webhook_delivery_pkey PRIMARY KEY (workspace_id, webhook_id, "position", created_at)
) PARTITION BY RANGE (created_at);
COMMENT ON TABLE webhook_delivery IS 'Every delivery within the retention, partitioned by day; whole days are dropped.';
COMMENT ON COLUMN webhook_delivery.position IS 'Position of the event in the log, which has the body.';
COMMENT ON COLUMN webhook_delivery.created_at IS 'Time of the first attempt.';
COMMENT ON COLUMN webhook_delivery.state IS 'pending, succeeded, failed or cancelled.';
COMMENT ON COLUMN webhook_delivery.next_attempt_at IS 'Time of the next attempt of a pending delivery.';
COMMENT ON COLUMN webhook_delivery.attempts IS 'Array of {at, status, error, duration_ms, answer}, oldest first.';
CREATE INDEX webhook_delivery_newest ON ONLY public.webhook_delivery USING btree (workspace_id, webhook_id, created_at DESC, "position" DESC) INCLUDE (event_type);
CREATE INDEX webhook_delivery_not_succeeded ON ONLY public.webhook_delivery USING btree (workspace_id, webhook_id, state, created_at DESC, "position" DESC) WHERE (state <> 'succeeded'::text);

CREATE TABLE webhook_delivery_other PARTITION OF webhook_delivery DEFAULT;

CREATE TABLE webhook_instance (
    workspace_id text COLLATE "C" NOT NULL DEFAULT '*'::text,
    instance_id text COLLATE "C" NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    server_start timestamp with time zone NOT NULL DEFAULT pg_postmaster_start_time(),
    secret_keys bytea[] NOT NULL DEFAULT '{}'::bytea[],
    of_table oid NOT NULL,
    CONSTRAINT webhook_instance_pkey PRIMARY KEY (workspace_id, instance_id),
    CONSTRAINT webhook_instance_workspace_id_check CHECK ((workspace_id = '*'::text))
) WITH (fillfactor=30);
COMMENT ON TABLE webhook_instance IS 'The processes that deliver. Each has one lease for all webhooks that it holds, so that renewing it writes one row.';
COMMENT ON COLUMN webhook_instance.workspace_id IS 'Always *, which stands for all workspaces.';
COMMENT ON COLUMN webhook_instance.instance_id IS 'Made by the process when it starts.';
COMMENT ON COLUMN webhook_instance.lease_until IS 'By the database''s clock. Afterwards other processes take over its webhooks.';
COMMENT ON COLUMN webhook_instance.server_start IS 'When the database server was started that gave the lease. It is over under any other.';
COMMENT ON COLUMN webhook_instance.secret_keys IS 'Fingerprints of the keys that the process has.';
COMMENT ON COLUMN webhook_instance.of_table IS 'The oid of this table when the lease was given: the restore of a dump makes another one, under which the lease is over.';

CREATE TABLE webhook_mail (
    workspace_id text COLLATE "C" NOT NULL,
    mail_id text COLLATE "C" NOT NULL,
    webhook_id text COLLATE "C" NOT NULL,
    subject text NOT NULL,
    body text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at timestamp with time zone NOT NULL,
    error text,
    recipient text,
    CONSTRAINT webhook_mail_pkey PRIMARY KEY (workspace_id, mail_id),
    CONSTRAINT webhook_mail_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id)
);
COMMENT ON TABLE webhook_mail IS 'Mails to finance teams that are not sent yet. A sent one is deleted.';
COMMENT ON COLUMN webhook_mail.mail_id IS 'Derived from what the mail is about, so that it is stored once.';
COMMENT ON COLUMN webhook_mail.attempts IS 'How often sending was tried.';
COMMENT ON COLUMN webhook_mail.next_attempt_at IS 'It is not sent before this time; moved ahead while a process sends it.';
COMMENT ON COLUMN webhook_mail.error IS 'Error of the last attempt.';
COMMENT ON COLUMN webhook_mail.recipient IS 'Who it is for; it is dropped when workspace.notify_email no longer has the address. Null: all of them.';
CREATE INDEX webhook_mail_next ON public.webhook_mail USING btree (next_attempt_at);

CREATE TABLE webhook_waiting (
    workspace_id text COLLATE "C" NOT NULL,
    webhook_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    attempts integer NOT NULL,
    before integer NOT NULL DEFAULT 0,
    next_attempt_at timestamp with time zone NOT NULL,
    once boolean NOT NULL DEFAULT false,
    epoch integer NOT NULL,
    CONSTRAINT webhook_waiting_pkey PRIMARY KEY (workspace_id, webhook_id, "position"),
    CONSTRAINT webhook_waiting_workspace_id_webhook_id_fkey FOREIGN KEY (workspace_id, webhook_id) REFERENCES webhook(workspace_id, webhook_id) ON DELETE CASCADE
) WITH (autovacuum_vacuum_scale_factor=0.05, fillfactor=70);
COMMENT ON TABLE webhook_waiting IS 'Pending deliveries: after a failed attempt or "Send again".';
COMMENT ON COLUMN webhook_waiting.created_at IS 'created_at of the row in webhook_delivery, by which that is found.';
COMMENT ON COLUMN webhook_waiting.attempts IS 'Attempts made so far.';
COMMENT ON COLUMN webhook_waiting.before IS 'Attempts made before the retry schedule began again: those of a failed delivery that is sent as missed.';
COMMENT ON COLUMN webhook_waiting.next_attempt_at IS 'The next attempt is not made before this time.';
COMMENT ON COLUMN webhook_waiting.once IS 'True for "Send again": there is no further attempt.';
COMMENT ON COLUMN webhook_waiting.epoch IS 'The webhook''s epoch when the attempt failed. A delivery from before the webhook was last turned off or on is to be cancelled.';
CREATE INDEX webhook_waiting_due ON public.webhook_waiting USING btree (workspace_id, webhook_id, next_attempt_at);
CREATE INDEX webhook_waiting_epoch ON public.webhook_waiting USING btree (workspace_id, webhook_id, epoch);
CREATE INDEX webhook_waiting_next ON public.webhook_waiting USING btree (next_attempt_at);

CREATE TABLE workspace (
    workspace_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    notify_email text,
    created_at timestamp with time zone NOT NULL,
    move text,
    moved_to text,
    CONSTRAINT workspace_pkey PRIMARY KEY (workspace_id),
    CONSTRAINT workspace_move_check CHECK ((move = ANY (ARRAY['receiving'::text, 'holding'::text, 'moved'::text]))),
    CONSTRAINT workspace_workspace_id_check CHECK ((workspace_id ~ '^[A-Za-z0-9_-]{1,64}$'::text))
);
COMMENT ON TABLE workspace IS 'One customer of the billing product. Created by its first entry, or with a command.';
COMMENT ON COLUMN workspace.name IS 'Shown on /v1/me and in the console; the id until set.';
COMMENT ON COLUMN workspace.notify_email IS 'Mail addresses of the finance team, separated by a comma and a space, which get a mail when a webhook fails or is turned off. Null: nobody gets one.';
COMMENT ON COLUMN workspace.move IS 'receiving: entries come from another database, and nobody else may append; holding: its webhooks are held for a move, and are not to be changed; moved: another database has it, and nothing here is to be changed. Null: it is here.';
COMMENT ON COLUMN workspace.moved_to IS 'The address of the API that has it now, for readers who ask here; null: none was given.';

CREATE TABLE workspace_move (
    workspace_id text COLLATE "C" NOT NULL,
    move_id uuid NOT NULL,
    receiver uuid,
    state text NOT NULL,
    other text NOT NULL,
    public_address text,
    changed_at timestamp with time zone NOT NULL,
    fenced_at timestamp with time zone,
    opened_after interval,
    position bigint,
    chain bytea,
    held jsonb NOT NULL DEFAULT '{}'::jsonb,
    progress jsonb NOT NULL DEFAULT '{}'::jsonb,
    CONSTRAINT workspace_move_pkey PRIMARY KEY (workspace_id),
    CONSTRAINT workspace_move_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspace(workspace_id),
    CONSTRAINT workspace_move_chain_check CHECK ((octet_length(chain) = 32)),
    CONSTRAINT workspace_move_state_check CHECK ((state = ANY (ARRAY['copying'::text, 'holding'::text, 'fenced'::text, 'moved'::text, 'removing'::text, 'removed'::text, 'receiving'::text, 'ready'::text, 'open'::text, 'complete'::text, 'abandoned'::text])))
);
COMMENT ON TABLE workspace_move IS 'The last move of each workspace from or to this database, and how far it has come.';
COMMENT ON COLUMN workspace_move.move_id IS 'The same on both sides.';
COMMENT ON COLUMN workspace_move.receiver IS 'Made by the side that receives, and noted by the other, which moves to no second one; null: not noted yet.';
COMMENT ON COLUMN workspace_move.state IS 'Of the side that gives: copying, holding, fenced, moved, removing, removed; of the one that receives: receiving, ready, open, complete, or abandoned.';
COMMENT ON COLUMN workspace_move.other IS 'Server and database of the other side, without an account.';
COMMENT ON COLUMN workspace_move.public_address IS 'As in workspace.moved_to, from when it has moved.';
COMMENT ON COLUMN workspace_move.changed_at IS 'When it got into this state.';
COMMENT ON COLUMN workspace_move.fenced_at IS 'When appends were last closed for the move.';
COMMENT ON COLUMN workspace_move.opened_after IS 'How long appends were refused, as the side that receives knows it; null: it is not open.';
COMMENT ON COLUMN workspace_move.position IS 'The newest entry when it moved; null: it has not.';
COMMENT ON COLUMN workspace_move.chain IS 'The chain value of that entry.';
COMMENT ON COLUMN workspace_move.held IS 'The states that webhooks had before they were held, by id.';
COMMENT ON COLUMN workspace_move.progress IS 'How far each table of the history is copied: the key of the last row, by table.';

CREATE OR REPLACE FUNCTION public.console_audit_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'the audit is append-only: % on console_audit is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END
$function$;
COMMENT ON FUNCTION console_audit_refuse() IS 'Keeps the audit append-only.';

CREATE OR REPLACE FUNCTION public.event_log_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('ledgerfeed.removes', true) <> '' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the log is append-only: % on event_log is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Entries are never changed or removed; append a new entry instead.';
END
$function$;
COMMENT ON FUNCTION event_log_refuse() IS 'Keeps the log append-only.';

CREATE OR REPLACE FUNCTION public.event_log_removed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF current_setting('ledgerfeed.removes', true) <> '' AND EXISTS (SELECT FROM removed r WHERE r.workspace_id <> current_setting('ledgerfeed.removes', true)) THEN
        RAISE EXCEPTION 'the log is append-only: DELETE on event_log is refused'
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Only entries of the workspace that the transaction names may be removed.';
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION event_log_removed() IS 'Refuses to remove entries of another workspace than the one that the transaction names.';

CREATE OR REPLACE FUNCTION public.log_append(w text, now timestamp with time zone, expected bigint, whole boolean, ids text[], types text[], created timestamp with time zone[], data text[], public text[], detached text[], salts bytea[], wait integer DEFAULT NULL::integer, restore boolean DEFAULT false, OUT head bigint, OUT outcomes text[], OUT positions bigint[], OUT times timestamp with time zone[])
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET plan_cache_mode TO 'auto'
 SET enable_sort TO 'off'
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
    h      log_head%ROWTYPE;
    made   boolean := false;
    known  boolean;
    old    record;
    stamp  text;
    at     timestamptz;
    clock  timestamptz;
    n      integer := coalesce(array_length(ids, 1), 0);
    last   timestamptz;
    refuse boolean := false;
    a_pos  bigint[] := '{}';
    a_id   text[] := '{}';
    a_type text[] := '{}';
    a_at   timestamptz[] := '{}';
    a_data text[] := '{}';
    a_pub  text[] := '{}';
    a_ch   bytea[] := '{}';
    d_pos  bigint[] := '{}';
    d_of   text[] := '{}';
    d_salt bytea[] := '{}';
    d_val  text[] := '{}';
    m      integer := 0;
    k      integer := 0;
    began  timestamptz;
    was    text;
    linked bytea;
    shown  text;
    kept   text;
    next   bigint;
    single boolean;
    fits   boolean;
    is_new boolean;
BEGIN
    -- Neither is meant to be NULL, and every condition below takes them for one or the other.
    whole := coalesce(whole, false);
    restore := coalesce(restore, false);
    IF now IS NULL OR now NOT BETWEEN log_clock() - interval '5 minutes' AND log_clock() + interval '5 minutes' THEN
        RAISE EXCEPTION 'the caller''s clock says % and the database''s %, which is more than 5 minutes apart', log_stamp(now), log_stamp(log_clock())
            USING ERRCODE = 'LF003',
                  DETAIL = json_build_object('now', log_stamp(now), 'database', log_stamp(log_clock()))::text,
                  HINT = 'Nothing of this call was appended. Set the clocks right.';
    END IF;
    -- Times ahead of now date all later entries of the workspace. Two conditions, because the second
    -- one costs as much as a tenth of an append.
    IF restore THEN
        IF NOT pg_has_role(session_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'event_log'::regclass), 'MEMBER')
           AND NOT coalesce(pg_has_role(session_user, to_regrole('ledgerfeed_service'), 'MEMBER'), false) THEN
            RAISE EXCEPTION 'this account may append, but not restore' USING ERRCODE = 'insufficient_privilege';
        END IF;
    END IF;
    IF wait IS NULL THEN
        SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
    ELSE
        SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE SKIP LOCKED;
        IF NOT FOUND AND wait = 0 THEN
            IF NOT EXISTS (SELECT FROM log_head l WHERE l.workspace_id = w) THEN
                outcomes := '{}';
            END IF;
            RETURN;
        END IF;
    END IF;
    IF NOT FOUND THEN
        IF wait > 0 THEN
            began := clock_timestamp();
            was := current_setting('lock_timeout');
            EXECUTE format('SET LOCAL lock_timeout = %L', log_patience(wait)::text || 'ms');
            SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
        END IF;
        IF h.position IS NULL THEN
            made := workspace_create(w, w, now);
            SELECT * INTO h FROM log_head l WHERE l.workspace_id = w FOR UPDATE;
        END IF;
        IF wait > 0 THEN
            EXECUTE format('SET LOCAL lock_timeout = %L', was);
            PERFORM set_config('ledgerfeed.waited', (log_waited() + 1000 * extract(epoch FROM clock_timestamp() - began))::integer::text, true);
        END IF;
    END IF;
    IF wait > 0 AND log_waited() IS NULL THEN
        PERFORM set_config('ledgerfeed.waited', '0', true);
    END IF;
    IF h.closed_until > clock_timestamp() THEN
        IF wait = 0 THEN
            RETURN;
        END IF;
        PERFORM log_closed(w);
    END IF;
    head := h.position;
    IF expected IS NOT NULL AND expected <> h.position THEN
        IF made THEN
            PERFORM workspace_unmake(w);
        END IF;
        RETURN;
    END IF;
    -- The caller's clock may be ahead of the database's.
    clock := date_trunc('milliseconds', coalesce(log_clock(), now));
    now := least(date_trunc('milliseconds', now), clock);
    last := h.created_at;
    outcomes := '{}';
    positions := array_fill(NULL::bigint, ARRAY[n]);
    times := '{}';
    -- Few entries are inserted one by one, and each finds out by its INSERT whether the log
    -- holds its id. Many are inserted together after one look-up, and so are those of which
    -- none may be appended when one is refused.
    single := n = 1 OR (n <= 8 AND NOT whole);
    known := true;
    IF NOT single THEN
        -- One look-up for each id, in the order of ids: this function is planned without
        -- sorts, so that only the unique index can be read, whatever the statistics say.
        known := EXISTS (SELECT FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (
            SELECT FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN u.id AND u.id ORDER BY e.id LIMIT 1) AS held);
    END IF;
    FOR i IN 1..n LOOP
        at := date_trunc('milliseconds', created[i]);
        fits := at IS NULL OR (at >= last AND (restore OR at <= clock + interval '5 minutes'));
        IF fits THEN
            at := coalesce(at, greatest(now, last));
            stamp := log_stamp(at);
            next := h.position + 1;
            kept := data[i];
            IF detached[i] IS NOT NULL THEN
                IF octet_length(salts[i]) IS DISTINCT FROM 32 THEN
                    RAISE EXCEPTION 'the salt of the entry % is not 32 bytes', ids[i] USING ERRCODE = 'check_violation';
                END IF;
                kept := log_stored(kept, salts[i], w, ids[i], detached[i]);
            END IF;
            IF log_commits(data[i]) AND (detached[i] IS NOT NULL OR NOT restore) THEN
                RAISE EXCEPTION 'the data of the entry % is a stored form', ids[i] USING ERRCODE = 'check_violation';
            END IF;
            linked := log_chain(h.chain, next, ids[i], types[i], stamp, kept);
            IF json_typeof(public[i]::json) <> 'object' THEN
                RAISE EXCEPTION 'the public data of the entry % is no object', ids[i] USING ERRCODE = 'check_violation';
            END IF;
            shown := log_public(ids[i], types[i], stamp, public[i]);
        END IF;
        IF fits AND single THEN
            INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
            VALUES (w, next, ids[i], types[i], at, kept::json, shown, linked)
                ON CONFLICT (workspace_id, id) DO NOTHING;
            is_new := FOUND;
            IF is_new AND detached[i] IS NOT NULL THEN
                INSERT INTO log_detached (workspace_id, position, subject, salt, value)
                VALUES (w, next, log_subject(types[i], data[i]::json), salts[i], detached[i]);
            END IF;
        ELSE
            is_new := false;
        END IF;
        IF known AND NOT is_new THEN
            SELECT e.type, e.data::text AS data, e.position, e.created_at,
                   (SELECT d.salt FROM log_detached d WHERE d.workspace_id = e.workspace_id AND d.position BETWEEN e.position AND e.position ORDER BY d.position LIMIT 1) AS salt
              INTO old FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN ids[i] AND ids[i] ORDER BY e.id;
            IF FOUND THEN
                positions[i] := old.position;
                times[i] := old.created_at;
                IF old.type = types[i] AND log_same(old.data, old.salt, w, ids[i], data[i], detached[i]) THEN
                    outcomes[i] := 'skipped';
                ELSE
                    outcomes[i] := 'other_content';
                    refuse := true;
                END IF;
                CONTINUE;
            END IF;
        END IF;
        IF at < last THEN
            outcomes[i] := 'before_newest';
            times[i] := last;
            refuse := true;
            CONTINUE;
        ELSIF NOT fits THEN
            outcomes[i] := 'ahead';
            times[i] := clock;
            refuse := true;
            CONTINUE;
        END IF;
        last := at;
        h.position := next;
        h.chain := linked;
        outcomes[i] := 'appended';
        positions[i] := next;
        times[i] := at;
        k := k + 1;
        IF NOT single THEN
            a_pos[k] := next;
            a_id[k] := ids[i];
            a_type[k] := types[i];
            a_at[k] := at;
            a_data[k] := kept;
            a_pub[k] := shown;
            a_ch[k] := linked;
            IF detached[i] IS NOT NULL THEN
                m := m + 1;
                d_pos[m] := next;
                d_of[m] := log_subject(types[i], data[i]::json);
                d_salt[m] := salts[i];
                d_val[m] := detached[i];
            END IF;
        END IF;
    END LOOP;
    IF k = 0 OR (whole AND refuse) THEN
        IF made THEN
            PERFORM workspace_unmake(w);
        END IF;
        RETURN;
    END IF;
    IF NOT single THEN
        INSERT INTO event_log (workspace_id, position, id, type, created_at, data, public_event, chain)
        SELECT w, t.position, t.id, t.type, t.at, t.data::json, t.pub, t.chain
          FROM unnest(a_pos, a_id, a_type, a_at, a_data, a_pub, a_ch) AS t (position, id, type, at, data, pub, chain);
        IF m > 0 THEN
            INSERT INTO log_detached (workspace_id, position, subject, salt, value)
            SELECT w, t.position, t.subject, t.salt, t.value FROM unnest(d_pos, d_of, d_salt, d_val) AS t (position, subject, salt, value);
        END IF;
    END IF;
    IF types && ARRAY['client.forgotten', 'contractor.forgotten'] THEN
        INSERT INTO log_forgotten (workspace_id, subject, position)
        SELECT w, log_forgets(u.type, u.data::json), u.position FROM unnest(types, data, positions, outcomes) AS u (type, data, position, outcome)
         WHERE u.outcome = 'appended' AND log_forgets(u.type, u.data::json) IS NOT NULL;
    END IF;
    head := h.position;
    linked := h.chain;
    UPDATE log_head SET position = head, created_at = last, chain = linked WHERE workspace_id = w;
END
$function$;
COMMENT ON FUNCTION log_append(text,timestamp with time zone,bigint,boolean,text[],text[],timestamp with time zone[],text[],text[],text[],bytea[],integer,boolean) IS 'The one way into the log.';

CREATE OR REPLACE FUNCTION public.log_chain(before bytea, pos bigint, id text, type text, stamp text, data text)
 RETURNS bytea
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN sha256((before || convert_to((((((((((pos)::text || '
'::text) || id) || '
'::text) || type) || '
'::text) || stamp) || '
'::text) || data), 'UTF8'::name)));
COMMENT ON FUNCTION log_chain(bytea,bigint,text,text,text,text) IS 'The chain value of an entry, from the one before it.';

CREATE OR REPLACE FUNCTION public.log_clock()
 RETURNS timestamp with time zone
 LANGUAGE sql
RETURN clock_timestamp();
COMMENT ON FUNCTION log_clock() IS 'The time that callers'' clocks are compared with; null: they are not.';

CREATE OR REPLACE FUNCTION public.log_clock_stable()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN log_clock();
COMMENT ON FUNCTION log_clock_stable() IS 'log_clock() for statements that change rows.';

CREATE OR REPLACE FUNCTION public.log_closed(w text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    m text;
    t text;
BEGIN
    SELECT k.move, k.moved_to INTO m, t FROM workspace k WHERE k.workspace_id = w;
    RAISE EXCEPTION '%', CASE m
        WHEN 'moved' THEN format('the workspace %s has moved%s', w, coalesce(' to ' || t, ' to another place'))
        WHEN 'receiving' THEN format('the workspace %s is being moved here, and is not open yet', w)
        ELSE format('the workspace %s is being moved', w) END
        USING ERRCODE = 'LF009',
              DETAIL = json_build_object('workspace', w, 'move', coalesce(m, ''), 'to', coalesce(t, ''))::text,
              HINT = CASE m WHEN 'moved' THEN 'Nothing of this call was appended. Append it there.'
                            ELSE 'Nothing of this call was appended. Append it again in some seconds.' END;
END
$function$;
COMMENT ON FUNCTION log_closed(text) IS 'Refuses an append to a workspace whose head is closed, with SQLSTATE LF009 and a detail that is JSON.';

CREATE OR REPLACE FUNCTION public.log_commits(stored text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ("right"(stored, 51) ~~ ',"~":"%"}'::text);
COMMENT ON FUNCTION log_commits(text) IS 'Whether a stored form has a commitment to detached fields.';

CREATE OR REPLACE FUNCTION public.log_detached_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('ledgerfeed.removes', true) <> '' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% on log_detached is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Detached values are never changed. ledgerfeed person forget deletes those of a person.';
END
$function$;
COMMENT ON FUNCTION log_detached_refuse() IS 'Keeps detached values as they were appended.';

CREATE OR REPLACE FUNCTION public.log_forget(w text, slice integer, OUT more boolean)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET enable_seqscan TO 'off'
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
    subjects  text[];
    positions bigint[];
    below     bigint;
    upto      bigint;
    now       timestamptz := clock_timestamp();
    seen      bigint := (SELECT c.position FROM log_checkpoint c WHERE c.workspace_id = w AND c.consumer = 'read_models');
BEGIN
    -- Those who came later wait for the pass that is under way, so that it ends.
    SELECT array_agg(g.subject), array_agg(g.position), min(g.reached), least(min(g.reached) + greatest(slice, 1), max(g.position))
      INTO subjects, positions, below, upto FROM (
           SELECT f.* FROM log_forgotten f WHERE f.workspace_id = w AND log_may_forget(w, f.position, f.ended_at, seen)
              AND (f.reached > 0 OR NOT EXISTS (SELECT FROM log_forgotten o WHERE o.workspace_id = w AND o.reached > 0 AND log_may_forget(w, o.position, o.ended_at, seen)))
              FOR UPDATE SKIP LOCKED) AS g;
    IF subjects IS NULL THEN
        more := false;
        RETURN;
    END IF;
    PERFORM set_config('ledgerfeed.removes', w, true); -- the triggers see that only this workspace is concerned
    WITH theirs AS (
        SELECT d.position, f.subject, f.position AS forgotten FROM log_detached d
         CROSS JOIN LATERAL unnest(string_to_array(d.subject, ' ')) AS s (subject)
          JOIN unnest(subjects, positions) AS f (subject, position) ON f.subject = s.subject AND f.position > d.position
         WHERE d.workspace_id = w AND d.position > below AND d.position <= upto),
    gone AS (
        DELETE FROM log_detached d WHERE d.workspace_id = w AND d.position > below AND d.position <= upto
           AND d.position = ANY (ARRAY(SELECT t.position FROM theirs t)))
    UPDATE log_forgotten g
       SET reached = greatest(g.reached, least(upto, g.position)),
           deleted = g.deleted + (SELECT count(*) FROM theirs t WHERE t.subject = g.subject AND t.forgotten = g.position),
           ended_at = CASE WHEN upto >= g.position THEN now END
      FROM unnest(subjects, positions) AS k (subject, position)
     WHERE g.workspace_id = w AND g.subject = k.subject AND g.position = k.position;
    PERFORM set_config('ledgerfeed.removes', '', true);
    more := EXISTS (SELECT FROM log_forgotten g WHERE g.workspace_id = w AND log_may_forget(w, g.position, g.ended_at, seen));
END
$function$;
COMMENT ON FUNCTION log_forget(text,integer) IS 'Deletes a slice of the detached values of those who are forgotten, the only way to delete them.';

CREATE OR REPLACE FUNCTION public.log_forgets(type text, data json)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN CASE type WHEN 'client.forgotten'::text THEN ('client:'::text || (data ->> 'client_id'::text)) WHEN 'contractor.forgotten'::text THEN ('contractor:'::text || (data ->> 'contractor_id'::text)) ELSE NULL::text END;
COMMENT ON FUNCTION log_forgets(text,json) IS 'Whom an entry forgets; null: it forgets nobody.';

CREATE OR REPLACE FUNCTION public.log_may_forget(w text, at bigint, ended timestamp with time zone, seen bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
    SELECT ended IS NULL AND at <= seen AND NOT EXISTS (
        SELECT FROM log_skip k WHERE k.workspace_id = w AND k.consumer = 'read_models' AND k.position = at)
$function$;
COMMENT ON FUNCTION log_may_forget(text,bigint,timestamp with time zone,bigint) IS 'Whether the deletion of an entry at a position goes on: the read models are at seen, and have had the effect of the entry.';

CREATE OR REPLACE FUNCTION public.log_patience(wait integer)
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (GREATEST((1)::numeric, LEAST((wait)::numeric, ((200 - log_waited()))::numeric, NULLIF((EXTRACT(epoch FROM (current_setting('lock_timeout'::text))::interval) * (1000)::numeric), (0)::numeric))))::integer;
COMMENT ON FUNCTION log_patience(integer) IS 'How long this transaction waits for one more head, in ms: 200 in all once it holds another.';

CREATE OR REPLACE FUNCTION public.log_position_since(w text, since timestamp with time zone)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE STRICT
 SET enable_sort TO 'off'
AS $function$
DECLARE
    found bigint;
BEGIN
    -- The order keeps each half one look-up by the position, whatever the statistics say.
    WITH RECURSIVE half (lo, hi) AS (
        SELECT 1::bigint, h.position + 1 FROM log_head h WHERE h.workspace_id = w
        UNION ALL
        SELECT CASE WHEN middle.hit THEN lo ELSE (lo + hi) / 2 + 1 END, CASE WHEN middle.hit THEN (lo + hi) / 2 ELSE hi END
          FROM half LEFT JOIN LATERAL (
               SELECT e.created_at >= since AS hit FROM event_log e WHERE e.workspace_id = w AND e.position BETWEEN (lo + hi) / 2 AND (lo + hi) / 2 ORDER BY e.position LIMIT 1) middle ON true
         WHERE lo < hi)
    SELECT lo INTO found FROM half WHERE lo = hi;
    RETURN coalesce(found, 1);
END
$function$;
COMMENT ON FUNCTION log_position_since(text,timestamp with time zone) IS 'The first position whose entry was published at or after the time; one past the newest when there is none.';

CREATE OR REPLACE FUNCTION public.log_public(id text, type text, stamp text, data text)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (((((((('{"id":"'::text || id) || '","type":"'::text) || type) || '","created_at":"'::text) || stamp) || '","data":'::text) || data) || '}'::text);
COMMENT ON FUNCTION log_public(text,text,text,text) IS 'The public form of an entry; null for internal types, whose data is null.';

CREATE OR REPLACE FUNCTION public.log_publish(w text, now timestamp with time zone, entries json)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
    ids     text[];
    types   text[];
    created timestamptz[];
    data    text[];
    public  text[];
    apart   text[];
    salts   bytea[];
    indexes integer[];
    done    record;
    reason  text;
    against text;
BEGIN
    SELECT array_agg(t.e->>'id' ORDER BY t.n), array_agg(t.e->>'type' ORDER BY t.n),
           array_agg((t.e->>'created_at')::timestamptz ORDER BY t.n), array_agg(t.e->>'open' ORDER BY t.n),
           array_agg(t.e->>'public' ORDER BY t.n), array_agg(t.e->>'value' ORDER BY t.n),
           array_agg(decode(t.e->>'salt', 'hex') ORDER BY t.n), array_agg((t.e->>'index')::integer ORDER BY t.n)
      INTO ids, types, created, data, public, apart, salts, indexes
      FROM json_array_elements(entries) WITH ORDINALITY AS t (e, n);
    IF ids IS NULL THEN
        RETURN;
    END IF;
    SELECT * INTO done FROM log_append(w, now, NULL, true, ids, types, created, data, public, apart, salts, 10000);
    FOR i IN 1..array_length(ids, 1) LOOP
        IF done.outcomes[i] IN ('appended', 'skipped') THEN
            CONTINUE;
        END IF;
        against := to_char(done.times[i] AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
        reason := CASE done.outcomes[i]
            WHEN 'other_content' THEN 'the workspace holds this id with other content'
            WHEN 'before_newest' THEN 'created_at is before the workspace''s newest entry, of ' || against
            WHEN 'ahead' THEN 'created_at is more than 5 minutes ahead of now, ' || against
            ELSE done.outcomes[i]
        END;
        RAISE EXCEPTION 'entry % refused: %', ids[i], reason
            USING ERRCODE = 'LF001',
                  DETAIL = json_build_object('index', indexes[i], 'id', ids[i],
                                             'outcome', done.outcomes[i], 'against', against)::text,
                  HINT = 'Nothing of this call was appended.';
    END LOOP;
    PERFORM pg_notify('ledgerfeed_appended', '- ' || w);
END
$function$;
COMMENT ON FUNCTION log_publish(text,timestamp with time zone,json) IS 'log_append as one statement of a producer''s transaction: a refused entry is an exception of SQLSTATE LF001, whose detail is JSON.';

CREATE OR REPLACE FUNCTION public.log_same(stored text, salt bytea, w text, id text, open text, value text)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN CASE WHEN ((value IS NULL) AND (stored = open)) THEN true WHEN (NOT log_commits(stored)) THEN false WHEN (salt IS NULL) THEN (("left"(stored, '-51'::integer) || '}'::text) = open) ELSE ((value IS NOT NULL) AND (stored = log_stored(open, salt, w, id, value))) END;
COMMENT ON FUNCTION log_same(text,bytea,text,text,text,text) IS 'Whether a stored entry, with the salt of its detached value, has the same data as an entry that is offered.';

CREATE OR REPLACE FUNCTION public.log_stamp(at timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN to_char((at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'::text);
COMMENT ON FUNCTION log_stamp(timestamp with time zone) IS 'A publish time in its public form.';

CREATE OR REPLACE FUNCTION public.log_stored(open text, salt bytea, w text, id text, value text)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((("left"(open, '-1'::integer) || ',"~":"'::text) || translate(rtrim(encode(sha256(((convert_to('ledgerfeed/detached/1
'::text, 'UTF8'::name) || salt) || convert_to(((((w || '
'::text) || id) || '
'::text) || value), 'UTF8'::name))), 'base64'::text), '='::text), '+/'::text, '-_'::text)) || '"}'::text);
COMMENT ON FUNCTION log_stored(text,bytea,text,text,text) IS 'The stored form of an entry, from its data without the detached fields and from these.';

CREATE OR REPLACE FUNCTION public.log_subject(type text, data json)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN concat_ws(' '::text, CASE WHEN (type <> 'contractor.recorded'::text) THEN ('client:'::text || (data ->> 'client_id'::text)) ELSE NULL::text END, CASE WHEN (type = ANY (ARRAY['contractor.recorded'::text, 'time_entry.recorded'::text])) THEN ('contractor:'::text || (data ->> 'contractor_id'::text)) ELSE NULL::text END);
COMMENT ON FUNCTION log_subject(text,json) IS 'Whom the detached fields of an entry are about.';

CREATE OR REPLACE FUNCTION public.log_trace(w text, ids text[], traces text[], outcomes text[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET enable_sort TO 'off'
 SET jit TO 'off'
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM unnest(traces, outcomes) AS t (trace, outcome) WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55) THEN
        RETURN;
    END IF;
    LOCK TABLE append_trace IN ROW EXCLUSIVE MODE NOWAIT;
    WITH new AS MATERIALIZED (
        SELECT DISTINCT ON (t.id) w, t.id, t.trace
          FROM unnest(ids, traces, outcomes) AS t (id, trace, outcome)
         WHERE t.outcome = 'appended' AND octet_length(t.trace) = 55
           AND (SELECT e.appended_at FROM event_log e WHERE e.workspace_id = w AND e.id BETWEEN t.id AND t.id ORDER BY e.id) = now()
           AND (SELECT a.event_id FROM append_trace a WHERE a.workspace_id = w AND a.event_id BETWEEN t.id AND t.id ORDER BY a.event_id LIMIT 1) IS NULL)
    INSERT INTO append_trace (workspace_id, event_id, traceparent)
    SELECT * FROM new
        ON CONFLICT DO NOTHING;
EXCEPTION WHEN lock_not_available THEN
    NULL; -- the append goes on without its trace
END
$function$;
COMMENT ON FUNCTION log_trace(text,text[],text[],text[]) IS 'Records the traces of entries that a call of log_append has appended; an empty trace is none.';

CREATE OR REPLACE FUNCTION public.log_waited()
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (NULLIF(current_setting('ledgerfeed.waited'::text, true), ''::text))::integer;
COMMENT ON FUNCTION log_waited() IS 'How long this transaction has waited for heads while it held another, in ms; null: it holds none.';

CREATE OR REPLACE FUNCTION public.webhook_cancel(w text, h text, n integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET enable_sort TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
DECLARE
    done  integer;
    since integer;
BEGIN
    SELECT CASE WHEN k.epoch = k.pause_epoch THEN k.kept_epoch ELSE k.epoch END INTO since FROM webhook k
     WHERE k.workspace_id = w AND k.webhook_id = h;
    -- Without sorts, a range of one webhook in the order of epochs is read along their index. A
    -- DELETE has no order, so it takes the rows by their places, which the locks keep.
    WITH gone AS (
        DELETE FROM webhook_waiting WHERE ctid = ANY (ARRAY(
               SELECT q.ctid FROM webhook_waiting q
                WHERE q.workspace_id = w AND q.webhook_id BETWEEN h AND h AND q.epoch < since
                ORDER BY q.webhook_id, q.epoch LIMIT n FOR UPDATE))
        RETURNING workspace_id, webhook_id, position, created_at
    ), shown AS (
        UPDATE webhook_delivery d SET state = 'cancelled', next_attempt_at = NULL FROM gone g
         WHERE d.workspace_id = g.workspace_id AND d.webhook_id = g.webhook_id AND d.position = g.position AND d.created_at = g.created_at
           AND d.state = 'pending'
    )
    SELECT count(*) INTO done FROM gone;
    RETURN done;
END
$function$;
COMMENT ON FUNCTION webhook_cancel(text,text,integer) IS 'Cancels up to n deliveries that are pending from before the webhook was last turned off or on; returns how many.';

CREATE OR REPLACE FUNCTION public.webhook_delivery_days(today date, oldest date)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
    day  date;
    name text;
    p    record;
BEGIN
    PERFORM set_config('lock_timeout', '200ms', true);
    -- One process at a time. Anybody could hold an advisory lock.
    LOCK TABLE webhook_delivery_other IN SHARE UPDATE EXCLUSIVE MODE;
    FOR day IN SELECT generate_series(today - 1, today + 7, interval '1 day')::date LOOP
        name := 'webhook_delivery_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(name) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE webhook_delivery INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', name);
        EXECUTE format('WITH moved AS (DELETE FROM webhook_delivery_other WHERE created_at >= %L AND created_at < %L RETURNING *)
                        INSERT INTO %I SELECT * FROM moved', day || ' 00:00Z', (day + 1) || ' 00:00Z', name);
        EXECUTE format('ALTER TABLE webhook_delivery ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       name, day || ' 00:00Z', (day + 1) || ' 00:00Z');
    END LOOP;
    DELETE FROM webhook_delivery_other WHERE created_at < oldest::timestamp AT TIME ZONE 'UTC';
    FOR p IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
              WHERE i.inhparent = 'webhook_delivery'::regclass
                AND c.relname ~ '^webhook_delivery_[0-9]{8}$' AND right(c.relname, 8) < to_char(oldest, 'YYYYMMDD') LOOP
        EXECUTE format('DROP TABLE %I', p.relname);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION webhook_delivery_days(date,date) IS 'Makes and drops the daily partitions of webhook_delivery. Fails with lock_not_available while a long transaction reads the history; call it again later.';

CREATE OR REPLACE FUNCTION public.webhook_lease(lease text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_instance i
                    WHERE i.workspace_id = '*' AND i.instance_id = lease AND i.lease_until > clock_timestamp()
                      AND i.server_start = pg_postmaster_start_time() AND i.of_table = 'webhook_instance'::regclass) THEN
        RAISE EXCEPTION 'the lease of % is over', lease USING ERRCODE = 'LF007';
    END IF;
END
$function$;
COMMENT ON FUNCTION webhook_lease(text) IS 'Fails with SQLSTATE LF007 unless a process that delivers still has its lease.';

CREATE OR REPLACE FUNCTION public.workspace_create(w text, n text, now timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
    INSERT INTO workspace (workspace_id, name, created_at) VALUES (w, n, now) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO log_head (workspace_id, position, created_at, chain)
    VALUES (w, 0, '-infinity', sha256(convert_to(w, 'UTF8')));
    INSERT INTO log_checkpoint (workspace_id, consumer) VALUES (w, 'read_models');
    RETURN true;
END
$function$;
COMMENT ON FUNCTION workspace_create(text,text,timestamp with time zone) IS 'Creates a workspace with an empty log; false when it exists.';

CREATE OR REPLACE FUNCTION public.workspace_unmake(w text)
 RETURNS void
 LANGUAGE sql
AS $function$
    DELETE FROM log_checkpoint WHERE workspace_id = w;
    DELETE FROM log_head WHERE workspace_id = w;
    DELETE FROM workspace WHERE workspace_id = w;
$function$;
COMMENT ON FUNCTION workspace_unmake(text) IS 'Deletes the workspace that the same transaction created for entries which were then refused.';
