import datetime
import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

until = time.monotonic() + int(os.environ.get("SECONDS_TO_RUN", "60"))
now = datetime.datetime.now(datetime.timezone.utc)
query = {"created_since": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
wait = 1
while time.monotonic() < until:
    request = urllib.request.Request(
        "{{.URL}}?" + urllib.parse.urlencode(query),
        headers={"Authorization": "Bearer " + os.environ["API_KEY"], "Prefer": "wait=30"},
    )
    page, after = None, ""
    try:
        with urllib.request.urlopen(request, timeout=45) as response:
            page = json.load(response)
            waited = "Preference-Applied" in response.headers
    except urllib.error.HTTPError as error:
        if error.code != 429 and error.code < 500:
            sys.exit(error.read().decode())  # its detail says what is wrong
        after = error.headers.get("Retry-After", "")
    except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
        print("the connection broke:", error, file=sys.stderr)
    if page is None:
        # Twice as long each time, and a little more at random.
        time.sleep(max(wait, int(after) if after.isdigit() else 0) + random.uniform(0, wait))
        wait = min(2 * wait, 60)
        continue
    wait = 1
    for event in page["data"]:
        print(event["created_at"], event["type"], event["data"]["object_id"], flush=True)
    query["cursor"] = page["next_cursor"]
    if not waited:
        time.sleep(5)  # too many requests of this key wait
