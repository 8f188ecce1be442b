<?php
$payload = ['workspace_id' => 'acme', 'id' => 'in_2_paid', 'type' => 'invoice.paid',
    'data' => ['invoice_id' => 'in_2', 'invoice_number' => '2026-002', 'client_id' => 'cl_2']];

$db = new PDO('mysql:charset=utf8mb4;' . getenv('SHOP_DSN'), 'root', options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
$db->beginTransaction();
$db->exec('UPDATE invoices SET paid_at = now() WHERE id = 2');
$db->prepare('INSERT INTO watermill_ledgerfeed (uuid, payload) VALUES (UUID(), ?)')
    ->execute([json_encode($payload, JSON_THROW_ON_ERROR)]);
$db->commit();
