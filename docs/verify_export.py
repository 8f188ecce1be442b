"""Verifies an export of the log: python3 verify_export.py < acme.ndjson

The export is that of "ledgerfeed export --chain --workspace W", from the first entry on. It may hold
entries whose values were forgotten, or be made with --without-values. The rules are those of
docs/contract/log.md, "An entry". Only the standard library is used.
"""
import base64
import hashlib
import json
import sys


def members(text):
    """Returns the text of each member of a JSON object, byte for byte."""
    found, decoder, at = {}, json.JSONDecoder(), 1
    while text[at] != "}":
        at += text[at] == ","
        name, at = decoder.raw_decode(text, at)
        begin = at + 1
        _, at = decoder.raw_decode(text, begin)
        found[name] = text[begin:at]
    return found


if len(sys.argv) > 1:
    sys.exit("want the export on standard input, and no arguments")
before, position, values, forgotten = None, 0, 0, 0
lines = sys.stdin.buffer.read().decode().split("\n")
if lines.pop() or not lines:
    sys.exit("want an export that has entries and ends with a line feed: it is empty or was cut off")
for line in lines:
    raw, entry = members(line), json.loads(line)
    if "stored" not in entry:
        sys.exit("want an export made with --chain")
    if before is None:
        before = hashlib.sha256(entry["workspace_id"].encode()).digest()
    position += 1
    text = "%d\n%s\n%s\n%s\n%s" % (position, entry["id"], entry["type"], entry["created_at"], raw["stored"])
    before = hashlib.sha256(before + text.encode()).digest()
    if entry["position"] != position or entry["chain"] != before.hex():
        sys.exit("position %d does not follow from the entries before it" % position)
    commitment = entry["stored"].pop("~", None)
    if commitment and "salt" not in entry:
        forgotten += 1
    elif commitment:
        # The data is the stored form and the value together, in the order of the catalogue.
        data, open_part = members(raw["data"]), members(raw["stored"])
        if any(data.get(name) != text for name, text in open_part.items() if name != "~"):
            sys.exit("the data of position %d is not the one that was appended" % position)
        value = "{" + ",".join('"%s":%s' % m for m in data.items() if m[0] not in entry["stored"]) + "}"
        salt = base64.urlsafe_b64decode(entry["salt"] + "=")
        of = b"ledgerfeed/detached/1\n" + salt + ("%s\n%s\n%s" % (entry["workspace_id"], entry["id"], value)).encode()
        if base64.urlsafe_b64encode(hashlib.sha256(of).digest()).decode().rstrip("=") != commitment:
            sys.exit("the value of position %d is not the one that was appended" % position)
        values += 1
    elif raw["data"] != raw["stored"]:
        sys.exit("the data of position %d is not the one that was appended" % position)
print("%d entries follow from each other; %d values are as they were appended, %d are not there" % (position, values, forgotten))
