#!/usr/bin/env bash
# Walks the interface from top to bottom with curl, jq and openssl alone, against a running system, and checks every
# field, status and header that it names.
#
#   MANDATE_URL      where the service is (http://127.0.0.1:8080)
#   MANDATE_API_KEY  a key with every scope
#   HELD_MANDATE     an active mandate without an agent of its own (path 1): scope payments.*, 100 an action,
#                    asks above 50
#   OWN_MANDATE      the same with the did:key of AGENT_KEY (path 2)
#   AGENT_KEY        that agent's Ed25519 key, PEM
#   APPROVE          a command that approves the escalation whose id is its argument
set -euo pipefail
cd "$(dirname "$0")/../.."
base=${MANDATE_URL:-http://127.0.0.1:8080}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(umask 077 && printf 'header = "authorization: Bearer %s"\n' "$MANDATE_API_KEY" >"$work/key")
checks=0

fail() {
  printf 'not ok: %s\n%s\n' "$1" "$(cat "$work/headers" "$work/body")" >&2
  exit 1
}

# call STATUS METHOD PATH [BODY] [curl options…]: the status, and the headers that every answer has.
call() {
  local status=$1 method=$2 path=$3 body=${4:-}
  shift $(($# < 4 ? $# : 4))
  local data=()
  [ -z "$body" ] || data=(-H 'content-type: application/json' --data-binary "$body")
  local got
  got=$(curl -sS --max-time 20 -X "$method" -D "$work/headers" -o "$work/body" -w '%{http_code}' \
    "${data[@]}" "$@" "$base$path")
  [ "$got" = "$status" ] || fail "$method $path answered $got, not $status"
  header cache-control no-store
  header x-ratelimit-limit '[0-9]+'
  header x-ratelimit-remaining '[0-9]+'
  header x-ratelimit-reset '[0-9]+'
}
keyed() { call "$@" --config "$work/key"; }
# keyed with fewer than four arguments needs the body in its place.
get() { call "$1" GET "$2" '' --config "$work/key"; }

header() {
  grep -qiE "^$1: *$2"$'\r'"?$" "$work/headers" || fail "the header $1 is not $2"
  checks=$((checks + 1))
}
no_header() { if grep -qi "^$1:" "$work/headers"; then fail "the header $1 is there"; fi; }
# is 'jq expression': holds for the body.
is() {
  jq -e "$1" "$work/body" >/dev/null || fail "$1"
  checks=$((checks + 1))
}
of() { jq -r "$1" "$work/body"; }
problem() {
  header content-type 'application/problem\+json.*'
  is "(.error == \"$1\") and (.type | type == \"string\") and (.title | type == \"string\") and .status
    and (.detail | type == \"string\") and (.request_id | type == \"string\")"
}
said() { printf 'ok: %s\n' "$1"; }

action='{"type":"payments.create","amount":{"value":12.5,"currency":"EUR"},"counterparty":"acme"}'
large='{"type":"payments.create","amount":{"value":60,"currency":"EUR"},"counterparty":"acme"}'
huge='{"type":"payments.create","amount":{"value":100.01,"currency":"EUR"},"counterparty":"acme"}'
digest() { printf 'sha-256:%s' "$(jq -cSj '.amount.value += 0' <<<"$1" | openssl dgst -sha256 -r | cut -d' ' -f1)"; }
request() { jq -nc --argjson presentation "$1" --argjson action "$2" '{$presentation, $action}'; }

# --- What needs no credential ---
call 200 GET /api/v1/denial-codes
is '.denial_code_version == 1 and (.codes | length) == 19 and (.codes | map(.code) | index("MD-302")) != null'
call 200 GET /.well-known/jwks.json
is '(.keys | length) >= 1 and (.keys | all(.kty == "EC" and .crv == "P-256" and .alg == "ES256"))'
is '.keys | all((.kid | length) > 0 and (has("d") | not))'
jq -c . "$work/body" >"$work/jwks"
call 200 GET /api/openapi.json
is '.openapi | startswith("3.1")'
call 404 GET /api/v1/nothing '' --config "$work/key"
problem not_found
call 401 POST /api/v1/verify '{}'
problem unauthenticated
header www-authenticate 'Bearer.*'
said 'denial codes, JWKS, OpenAPI, 404 and 401'

# --- Status of a mandate ---
get 200 "/api/v1/mandates/$HELD_MANDATE/status"
is '.status == "active" and .agent_did == "" and (.presentation_verifier | startswith("acc_"))'
is '.limits.scope == ["payments.*"] and .limits.amount_limit_per_action == 100 and .limits.escalation_threshold == 50'
is '(.limits.amount_limit_per_month | type) == "number" and (.credential | split(".") | length) == 3'
verifier=$(of .presentation_verifier)
before=$(of .usage.remaining)
get 200 "/api/v1/mandates/$OWN_MANDATE/status"
is '.agent_did | startswith("did:key:z6Mk")'
get 404 /api/v1/mandates/mdt_00000000000000000000000000/status
problem not_found
said 'status of both mandates'

# --- Path 1: present → verify → act → consume → execute ---
present() { # mandate, action
  keyed 200 POST /api/v1/agents/present "$(jq -nc --arg m "$1" --argjson a "$2" '{mandate_id: $m, action: $a}')"
  is '.custody == "custodial" and (.note | length) > 0 and .presentation.type == "MandatePresentation"'
}
present "$HELD_MANDATE" "$action"
presentation=$(of .presentation)
is ".presentation.ctx == \"$(digest "$action")\" and .presentation.verifier == \"$verifier\""
is '.presentation.proof.cryptosuite == "eddsa-jcs-2022" and .presentation.proof.challenge == .presentation.nonce'
key="walk-$(openssl rand -hex 8)"
keyed 200 POST /api/v1/verify "$(request "$presentation" "$action")" -H "idempotency-key: $key"
is 'keys_unsorted == ["decision", "consumption_token", "receipt", "mat_compact"] and .decision == "allow"'
is '(.consumption_token | startswith("ctk_")) and (.receipt.receipt_id | startswith("rcp_"))'
no_header x-idempotent-replay
cp "$work/body" "$work/first"
token=$(of .consumption_token) receipt=$(of .receipt.receipt_id) mat=$(of .mat_compact)
keyed 200 POST /api/v1/verify "$(request "$presentation" "$action")" -H "idempotency-key: $key"
header x-idempotent-replay true
cmp -s "$work/first" "$work/body" || fail 'a replay is the same answer, byte for byte'
keyed 200 POST /api/v1/verify "$(request "$presentation" "$action")"
is '.decision == "deny" and .reasons == ["MD-105"] and (.reason_text | length) > 0'
is '.receipt.receipt_id | startswith("rcp_")'
said 'path 1: presented, allowed, replayed under the key, refused without it'

# The MAT: ES256, checked with openssl.
unbase64url() {
  local text
  text=$(tr -- '-_' '+/' <<<"$1")
  while [ $((${#text} % 4)) -ne 0 ]; do text+==; done
  base64 -d <<<"$text"
}
part() { unbase64url "$(cut -d. -f"$1" <<<"$mat")"; }
part 1 | jq -e '.alg == "ES256" and .typ == "mat+jwt" and (.kid | length) > 0' >/dev/null ||
  fail 'the header of the MAT'
part 2 | jq -e --arg r "$receipt" --arg m "$HELD_MANDATE" --arg v "$verifier" '.jti == $r and .sub == $m and .aud == $v
  and .decision == "allow" and .exp == .iat + 600 and .assurance_level == 1' >/dev/null || fail 'the claims of the MAT'
jwk=$(jq -c --arg kid "$(part 1 | jq -r .kid)" '.keys[] | select(.kid == $kid)' "$work/jwks")
b64hex() { unbase64url "$1" | od -An -v -tx1 | tr -d ' \n'; }
{
  printf '3059301306072a8648ce3d020106082a8648ce3d03010703420004%s%s' \
    "$(b64hex "$(jq -r .x <<<"$jwk")")" "$(b64hex "$(jq -r .y <<<"$jwk")")"
} | tr a-f A-F | basenc --base16 -d >"$work/es256.der"
integer() { # DER INTEGER of 32 bytes in hex
  local hex=$1
  while [ "${hex:0:2}" = 00 ] && [ ${#hex} -gt 2 ]; do hex=${hex:2}; done
  [ $((16#${hex:0:2})) -lt 128 ] || hex=00$hex
  printf '02%02x%s' $((${#hex} / 2)) "$hex"
}
seal=$(part 3 | od -An -v -tx1 | tr -d ' \n')
der=$(integer "${seal:0:64}")$(integer "${seal:64:64}")
printf '30%02x%s' $((${#der} / 2)) "$der" | tr a-f A-F | basenc --base16 -d >"$work/seal"
printf %s "${mat%.*}" >"$work/signed"
openssl dgst -sha256 -verify <(openssl pkey -pubin -inform DER -in "$work/es256.der") -signature "$work/seal" \
  "$work/signed" >/dev/null || fail 'the signature of the MAT'
said 'the MAT checks with openssl'

# Act: the neutral target of the sandbox.
call 200 POST '/api/sandbox/echo?order=7' "$action" -H 'authorization: Bearer secret-of-mine' -H 'cookie: a=b'
is '.method == "POST" and ([.. | strings] | any(contains("secret-of-mine")) | not)'
booking=$(jq -nc --arg t "$token" --arg c "$(digest "$action")" '{consumption_token: $t, final_amount: 10.25,
  currency: "EUR", action_type: "payments.create", counterparty: "acme", context_digest: $c}')
keyed 409 POST /api/v1/consumptions "$(jq -c '.final_amount = 12.51' <<<"$booking")"
problem exceeds_authorised_amount
keyed 409 POST /api/v1/consumptions "$(jq -c '.counterparty = "other"' <<<"$booking")"
problem conflict
keyed 200 POST /api/v1/consumptions "$booking"
is "(.consumption_id | length) > 0 and .mandate_id == \"$HELD_MANDATE\""
is '.booked == {value: 10.25, currency: "EUR"}'
is "(.remaining.value * 100 | round) == (($before - 10.25) * 100 | round)"
is '.remaining.currency == "EUR" and (.remaining.period | test("^[0-9]{4}-[0-9]{2}$"))'
is ".receipt.receipt_id == \"$receipt\""
cp "$work/body" "$work/first"
keyed 200 POST /api/v1/consumptions "$booking"
cmp -s "$work/first" "$work/body" || fail 'a repeated consumption is the same answer'
keyed 409 POST /api/v1/consumptions "$(jq -c '.final_amount = 1' <<<"$booking")"
problem conflict
execution=$(jq -nc --arg t "$token" '{reservation_token: $t, outcome: "erfolgreich", executed_amount: 10.25,
  executed_currency: "EUR", external_ref: "order-7"}')
keyed 422 POST /api/v1/executions "$(jq -c '.outcome = "perfect"' <<<"$execution")"
problem invalid
is '.fields | map(.field) | index("outcome") != null'
keyed 200 POST /api/v1/executions "$execution"
is "(.execution_id | startswith(\"exe_\")) and .receipt_id == \"$receipt\" and .status == \"erfolgreich\""
get 200 "/api/v1/mandates/$HELD_MANDATE/status"
is ".usage.reserved == 0 and ((.usage.remaining * 100 | round) == (($before - 10.25) * 100 | round))"
said 'acted, consumed, executed; the month holds what was booked'

# --- Evidence: the dossier of that receipt, and an export ---
dossier="/api/v1/verifications/$receipt/dossier"
get 403 "$dossier?mat=${mat%?????}AAAAA"
is '.error | type == "string"'
get 200 "$dossier?mat=$mat"
header content-type 'application/json.*'
is ".receipt.receipt_id == \"$receipt\" and .mat == \"$mat\""
cp "$work/body" "$work/dossier.json"
get 200 /api/v1/dossier-schema
is '(."$schema" | type) == "string"'
keyed 200 GET "$dossier?mat=$mat" '' -H 'accept: text/html'
header content-type 'text/html.*'
keyed 200 POST /api/v1/evidence/export '{"format":"json"}'
is '(.root | length) > 0 and (.size | type) == "number" and (.entries | length) == .size'
is '.receipt | split(".") | length == 3'
keyed 422 POST /api/v1/evidence/export '{"format":"xml"}'
problem invalid
said 'the dossier, and an export of the evidence'

# --- Path 2: the agent signs for itself ---
own() {
  bash examples/path-2-agent.sh --key "$AGENT_KEY" --mandate "$OWN_MANDATE" --verifier "$verifier" --action "$1" --print
}
held_for_own=$(jq -nc --arg m "$OWN_MANDATE" --argjson a "$action" '{mandate_id: $m, action: $a}')
keyed 409 POST /api/v1/agents/present "$held_for_own"
problem conflict
presentation=$(own "$action")
keyed 200 POST /api/v1/verify "$(request "$presentation" "$action")"
is '.decision == "allow"'
cancelled=$(jq -nc --arg t "$(of .consumption_token)" '{reservation_token: $t, outcome: "abgebrochen"}')
keyed 200 POST /api/v1/executions "$cancelled"
is '.status == "abgebrochen"'
get 200 "/api/v1/mandates/$OWN_MANDATE/status"
is '.usage.reserved == 0 and .usage.booked == 0'
presentation=$(own "$action")
keyed 200 POST /api/v1/verify "$(request "$presentation" "$large")"
is '.decision == "deny" and .reasons == ["MD-104"]'
presentation=$(own "$huge")
keyed 200 POST /api/v1/verify "$(request "$presentation" "$huge")"
is '.decision == "deny" and .reasons == ["MD-302"]'
keyed 422 POST /api/v1/verify "$(request "$presentation" "$(jq -c '.amount.value = 1.005' <<<"$action")")"
problem invalid
is '.fields | map(.field) | index("action.amount.value") != null'
said 'path 2: its own did:key, another action, too much'

# --- Escalation ---
presentation=$(own "$large")
keyed 200 POST /api/v1/verify "$(request "$presentation" "$large")"
is '.decision == "escalate" and (.escalation.id | startswith("esc_"))'
is '.escalation.expires_at | test("^[0-9T:.-]+Z$")'
escalation=$(of .escalation.id)
get 200 "/api/v1/escalations/$escalation"
is '.status == "pending" and (has("escalation_token") | not)'
$APPROVE "$escalation" >/dev/null
get 200 "/api/v1/escalations/$escalation"
is '.status == "approved" and (.escalation_token | startswith("etk_"))'
granted=$(of .escalation_token)
with_token() { request "$1" "$2" | jq -c --arg t "$granted" '. + {escalation_token: $t}'; }
keyed 200 POST /api/v1/verify "$(with_token "$presentation" "$large")"
is '.decision == "allow"'
keyed 200 POST /api/v1/verify "$(with_token "$(own "$large")" "$large")"
is '.decision == "deny" and .reasons == ["MD-402"]'
said 'an approval is good for one allow'

# --- Sandbox: no key but for verify ---
call 201 POST /api/v1/sandbox/mandates \
  '{"scope":["payments.*"],"amount_limit_per_action":100,"amount_limit_per_month":500,"escalation_threshold":50}'
is '(.mandate_id | startswith("mdt_")) and (.agent_secret | startswith("ags_")) and .status == "active"'
sandbox=$(jq -c '{mandate_id, agent_secret}' "$work/body")
call 200 POST /api/v1/sandbox/presentations "$sandbox"
presentation=$(of .presentation)
is '.presentation.ctx == null'
small='{"type":"payments.create","amount":{"value":5,"currency":"EUR"}}'
keyed 200 POST /api/v1/verify "$(request "$presentation" "$small")"
is '.decision == "allow" and (.latency_ms | type) == "number" and (.mat_compact | split(".") | length) == 3'
keyed 200 POST /api/v1/consumptions "$(jq -nc --arg t "$(of .consumption_token)" '{consumption_token: $t}')"
is '.booked == {value: 5, currency: "EUR"} and .remaining.value == 495'
call 200 POST /api/v1/sandbox/presentations "$sandbox"
keyed 200 POST /api/v1/verify "$(request "$(of .presentation)" "$large")"
is '.decision == "escalate"'
said 'the sandbox'

printf '%d checks passed\n' "$checks"
