import datetime
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

until = time.monotonic() + int(os.environ.get("SECONDS_TO_RUN", "60"))
now = datetime.datetime.now(datetime.timezone.utc)
query = {"created_since": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
while time.monotonic() < until:
    request = urllib.request.Request(
        "{{.URL}}?" + urllib.parse.urlencode(query),
        headers={"Authorization": "Bearer " + os.environ["API_KEY"], "Prefer": "wait=30"},
    )
    try:
        with urllib.request.urlopen(request, timeout=45) as response:
            page = json.load(response)
            waited = "Preference-Applied" in response.headers
    except urllib.error.HTTPError as error:
        if error.code not in (429, 503):
            sys.exit(error.read().decode())  # its detail says what is wrong
        time.sleep(int(error.headers["Retry-After"]))
        continue
    for event in page["data"]:
        print(event["created_at"], event["type"], event["data"]["object_id"], flush=True)
    query["cursor"] = page["next_cursor"]
    if not waited:
        time.sleep(5)  # too many requests of this key wait
