// Reads one JSON object a line, {headers, body, secret}, and answers each with what the
// official library says: the event's id, or "refused".
import { createInterface } from "node:readline";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

for await (const line of createInterface({ input: process.stdin })) {
  const { headers, body, secret } = JSON.parse(line);
  try {
    console.log(new Webhook(secret).verify(body, headers).id);
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log("refused");
  }
}
