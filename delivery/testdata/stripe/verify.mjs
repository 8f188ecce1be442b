// Reads one JSON object a line, {header, body, secret, now}, and answers each
// with what the official library says: the event's id, or "refused".
import { createInterface } from "node:readline";
import Stripe from "stripe";

const stripe = new Stripe("sk_test_unused");
for await (const line of createInterface({ input: process.stdin })) {
  const { header, body, secret, now } = JSON.parse(line);
  try {
    console.log(stripe.webhooks.constructEvent(Buffer.from(body, "base64"), header, secret, 300, undefined, now).id);
  } catch (error) {
    if (error.type !== "StripeSignatureVerificationError") throw error;
    console.log("refused");
  }
}
