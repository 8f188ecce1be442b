// const raw = the request's body as bytes, before any JSON parsing
// verify(req.headers["SERVICE-Signature".toLowerCase()], raw, process.env.WEBHOOK_SECRET)
const crypto = require("node:crypto");

function verify(header, raw, secret) {
  const parts = String(header || "").split(",").map((p) => p.trim().split("="));
  const t = (parts.find(([name]) => name === "t") || [])[1];
  if (!/^\d+$/.test(t || "") || Math.abs(Date.now() / 1000 - Number(t)) > 300) return false;
  const want = crypto.createHmac("sha256", secret).update(t + ".").update(raw).digest();
  return parts.some(([name, value]) => {
    if (name !== "v1") return false;
    const got = Buffer.from(value || "", "hex");
    return got.length === want.length && crypto.timingSafeEqual(got, want);
  });
}

module.exports = { verify };
