<?php
$payload = ['workspace_id' => 'acme', 'id' => 'in_2_paid', 'type' => 'invoice.paid',
    'data' => ['invoice_id' => 'in_2', 'invoice_number' => '2026-002', 'client_id' => 'cl_2']];

$db = new PDO('pgsql:' . getenv('SHOP_DSN'), options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
$db->beginTransaction();
$db->exec('UPDATE invoices SET paid_at = now() WHERE id = 2');
$db->prepare("INSERT INTO watermill_ledgerfeed (uuid, payload, metadata, transaction_id) VALUES (gen_random_uuid(), ?, '{}', pg_current_xact_id())")
    ->execute([json_encode($payload, JSON_THROW_ON_ERROR)]);
$db->commit();
