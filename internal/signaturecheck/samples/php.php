<?php
// $raw = file_get_contents('php://input'), before any JSON parsing
// verify($_SERVER['HTTP_' . strtoupper(strtr('SERVICE-Signature', '-', '_'))], $raw, getenv('WEBHOOK_SECRET'))
function verify(string $header, string $raw, string $secret): bool
{
    $t = '';
    $sums = [];
    foreach (explode(',', $header) as $part) {
        [$name, $value] = array_pad(explode('=', trim($part), 2), 2, '');
        if ($name === 't') {
            $t = $value;
        } elseif ($name === 'v1') {
            $sums[] = $value;
        }
    }
    if (!ctype_digit($t) || abs(time() - (int) $t) > 300) {
        return false;
    }
    $want = hash_hmac('sha256', "$t.$raw", $secret);
    foreach ($sums as $sum) {
        if (hash_equals($want, $sum)) {
            return true;
        }
    }
    return false;
}
