#!/usr/bin/env python3
"""Path 2 in Python: an agent that signs with its own key. Needs Python 3.9 and the package `cryptography`.

    openssl genpkey -algorithm ed25519 -out agent-key.pem    (or: mandate agent-key create)
    python3 examples/path-2-agent.py --key agent-key.pem --did                      the did:key for the mandate
    export MANDATE_URL=http://127.0.0.1:8080 MANDATE_API_KEY=mak_...
    python3 examples/path-2-agent.py --key agent-key.pem --mandate mdt_... --verifier acc_... \\
        --action '{"type":"payments.create","amount":{"value":12.5,"currency":"EUR"},"counterparty":"acme"}'

With --print it shows the presentation and sends nothing.
"""

import argparse
import hashlib
import http.client
import json
import os
import secrets
import sys
import time
import unicodedata
import urllib.error
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone
from decimal import Decimal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
ED25519_CODEC = b"\xed\x01"
LIFETIME = timedelta(minutes=5)
ATTEMPTS = 5
RETRY_AFTER_MAX_S = 30
POLL_S = 2
ESCALATION_S = 630


def multibase(data):
    """`z` and base58btc: the bytes as one number, and a `1` for each zero byte before it."""
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = BASE58[digit] + text
    return "z" + "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def jcs(value):
    """RFC 8785 for what is signed here: objects with ASCII names, strings, and amounts as exact decimals."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{jcs(name)}:{jcs(member)}" for name, member in sorted(value.items())) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Decimal) and value.is_finite() and abs(value) < 10**16:
        return format(value.normalize(), "f") if value else "0"
    raise SystemExit(f"{value!r} has no place in an action")


def read_action(text):
    """The action with its amount as a decimal, never through binary floating point, and its counterparty in NFC."""
    action = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    if "counterparty" in action:
        action["counterparty"] = unicodedata.normalize("NFC", action["counterparty"])
    return action


def digest(value):
    return hashlib.sha256(jcs(value).encode()).digest()


def did_of(key):
    return "did:key:" + multibase(ED25519_CODEC + key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))


def timestamp(at):
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def present(key, mandate, verifier, action):
    """Signs what the agent is about to do (docs/presentations.md)."""
    now = datetime.now(timezone.utc)
    did, nonce = did_of(key), secrets.token_urlsafe(16)
    document = {
        "type": "MandatePresentation",
        "mandate_id": mandate,
        "verifier": verifier,
        "ctx": "sha-256:" + digest(action).hex(),
        "nonce": nonce,
        "issued_at": timestamp(now),
        "expires_at": timestamp(now + LIFETIME),
    }
    config = {
        "type": "DataIntegrityProof",
        "cryptosuite": "eddsa-jcs-2022",
        "created": timestamp(now),
        "verificationMethod": did + "#" + did[len("did:key:") :],
        "proofPurpose": "authentication",
        "domain": verifier,
        "challenge": nonce,
    }
    proof_value = multibase(key.sign(digest(config) + digest(document)))
    return {**document, "proof": {**config, "proofValue": proof_value}}


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The API key must not follow to another address."""

    def redirect_request(self, *args, **kwargs):
        return None


OPENER = urllib.request.build_opener(NoRedirect)


def call(url, body=None, headers=None, attempts=1):
    """One request; busy answers (429, 503) and lost connections are tried again, with the same body and headers."""
    data = None if body is None else jcs(body).encode()
    headers = {**({} if data is None else {"content-type": "application/json"}), **(headers or {})}
    for left in range(attempts - 1, -1, -1):
        pause = "1"
        try:
            with OPENER.open(urllib.request.Request(url, data, headers), timeout=10) as response:
                return json.load(response, parse_float=Decimal, parse_int=Decimal)
        except urllib.error.HTTPError as error:
            failure = f"{error.code} {error.read().decode(errors='replace')}"
            pause = error.headers.get("retry-after", "1") if error.code in (429, 503) else ""
        except (OSError, http.client.HTTPException) as error:
            failure = str(error)
        if left == 0 or not pause.isdigit() or int(pause) > RETRY_AFTER_MAX_S:
            raise SystemExit(f"{url.split('?')[0]}: {failure}")
        time.sleep(max(int(pause), 0.2))


def verify(base, api_key, request):
    """Asks until there is a decision other than to ask a human; the presentation stays the same."""
    headers = {**api_key, "idempotency-key": str(uuid.uuid4())}
    result = call(f"{base}/api/v1/verify", request, headers, ATTEMPTS)
    if result["decision"] != "escalate":
        return result
    if "escalation_token" in request:
        raise SystemExit("escalated again after the approval")
    escalation = result["escalation"]
    print(f"A human is asked: {escalation['id']}, until {escalation['expires_at']}")
    for _ in range(ESCALATION_S // POLL_S):
        time.sleep(POLL_S)
        found = call(f"{base}/api/v1/escalations/{escalation['id']}", None, api_key, ATTEMPTS)
        if found["status"] != "pending":
            break
    if "escalation_token" not in found:
        raise SystemExit(f"Not approved: {found['status']}")
    return verify(base, api_key, {**request, "escalation_token": found["escalation_token"]})


def run(base, api_key, presentation, action):
    result = verify(base, api_key, {"presentation": presentation, "action": action})
    if result["decision"] != "allow":
        print(f"Denied: {', '.join(result['reasons'])} {result['reason_text']}")
        return 1
    receipt, token, amount = result["receipt"]["receipt_id"], result["consumption_token"], action["amount"]
    print(f"Allowed: receipt {receipt}")
    # The sandbox's echo stands for the system that a real agent acts on; it does not get the API key. Where it fails
    # nobody knows what happened: the program ends, nothing is released, the amount stays counted.
    call(f"{base}/api/sandbox/echo", action)
    consumption = {
        "consumption_token": token,
        "final_amount": amount["value"],
        "currency": amount["currency"],
        "action_type": action["type"],
        "context_digest": presentation["ctx"],
    }
    if "counterparty" in action:
        consumption["counterparty"] = action["counterparty"]
    booked = call(f"{base}/api/v1/consumptions", consumption, api_key, ATTEMPTS)
    execution = {
        "reservation_token": token,
        "outcome": "erfolgreich",
        "executed_amount": amount["value"],
        "executed_currency": amount["currency"],
        "external_ref": f"echo-{receipt}",
    }
    # Sent once: nothing names a report that may have arrived.
    reported = call(f"{base}/api/v1/executions", execution, api_key)
    print(f"Booked: {booked['booked']['value']} {booked['booked']['currency']}, {booked['remaining']['value']} left")
    print(f"Execution: {reported['execution_id']} {reported['status']}")
    print(f"Dossier: {base}/api/v1/verifications/{receipt}/dossier?mat={result['mat_compact']}")
    return 0


def main():
    parser = argparse.ArgumentParser(description="An agent that signs with its own key (path 2).")
    parser.add_argument("--key", required=True, help="the agent's Ed25519 key, PEM")
    parser.add_argument("--mandate", help="mdt_...")
    parser.add_argument("--verifier", help="acc_..., `presentation_verifier` of the mandate's status")
    parser.add_argument("--action", help="JSON, as it will be verified")
    parser.add_argument("--print", action="store_true", help="show the presentation and send nothing")
    parser.add_argument("--did", action="store_true", help="show the did:key and end")
    options = parser.parse_args()
    with open(options.key, "rb") as file:
        key = load_pem_private_key(file.read(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        parser.error(f"{options.key} holds no Ed25519 key")
    if options.did:
        print(did_of(key))
        return 0
    if not (options.mandate and options.verifier and options.action):
        parser.error("--mandate, --verifier and --action are needed")
    action = read_action(options.action)
    presentation = present(key, options.mandate, options.verifier, action)
    if options.print:
        print(jcs(presentation))
        return 0
    base = os.environ.get("MANDATE_URL", "http://127.0.0.1:8080").rstrip("/")
    if "MANDATE_API_KEY" not in os.environ:
        parser.error("MANDATE_API_KEY is not set")
    api_key = {"authorization": f"Bearer {os.environ['MANDATE_API_KEY']}"}
    return run(base, api_key, presentation, action)


if __name__ == "__main__":
    sys.exit(main())
