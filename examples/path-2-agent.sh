#!/usr/bin/env bash
# Path 2 in bash: an agent that signs with its own key. Needs openssl 3, jq, curl and od.
#
#   openssl genpkey -algorithm ed25519 -out agent-key.pem    (or: mandate agent-key create)
#   examples/path-2-agent.sh --key agent-key.pem --did                      the did:key for the mandate
#   export MANDATE_URL=http://127.0.0.1:8080 MANDATE_API_KEY=mak_…
#   examples/path-2-agent.sh --key agent-key.pem --mandate mdt_… --verifier acc_… \
#     --action '{"type":"payments.create","amount":{"value":12.5,"currency":"EUR"},"counterparty":"acme"}'
#
# With --print it shows the presentation and sends nothing. A counterparty must be in NFC, as what is typed usually is;
# one that is not is denied (MD-104).
set -euo pipefail

usage() {
  echo "usage: path-2-agent.sh --key FILE (--did | --mandate mdt_… --verifier acc_… --action JSON [--print])" >&2
  exit 2
}

key='' mandate='' verifier='' action='' mode=run
while [ $# -gt 0 ]; do
  case $1 in
    --key | --mandate | --verifier | --action)
      [ $# -ge 2 ] || usage
      printf -v "${1#--}" '%s' "$2"
      shift 2
      ;;
    --print | --did) mode=${1#--} && shift ;;
    *) usage ;;
  esac
done
[ -n "$key" ] || usage
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

hex() { od -An -v -tx1 | tr -d ' \n'; }

# `z` and base58btc of hex digits: the bytes as one number, and a `1` for each zero byte before it.
multibase() {
  local alphabet=123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz
  local hex=$1 text='' zeros='' digits=() carry at i
  while [ "${hex:${#zeros}*2:2}" = 00 ]; do zeros+=1; done
  for ((at = ${#zeros} * 2; at < ${#hex}; at += 2)); do
    carry=$((16#${hex:at:2}))
    for ((i = 0; i < ${#digits[@]} || carry > 0; i++)); do
      carry=$((carry + (${digits[i]:-0} << 8)))
      digits[i]=$((carry % 58))
      carry=$((carry / 58))
    done
  done
  for ((i = ${#digits[@]} - 1; i >= 0; i--)); do text+=${alphabet:digits[i]:1}; done
  printf 'z%s%s' "$zeros" "$text"
}

# RFC 8785 for what is signed here: names sorted, no white space. Adding 0 makes a number's text the shortest one.
jcs() { jq -cSj 'if has("amount") then .amount.value += 0 else . end'; }

sha256() { openssl dgst -sha256 -binary; }

public=$(openssl pkey -in "$key" -pubout -outform DER | tail -c 32 | hex)
did=did:key:$(multibase "ed01$public")
if [ "$mode" = did ]; then
  echo "$did"
  exit 0
fi
[ -n "$mandate" ] && [ -n "$verifier" ] && [ -n "$action" ] || usage

action=$(jcs <<<"$action")
ctx=sha-256:$(printf %s "$action" | sha256 | hex)
nonce=$(openssl rand -hex 16)
now=$(date +%s)

document=$(jq -n --arg mandate_id "$mandate" --arg verifier "$verifier" --arg ctx "$ctx" --arg nonce "$nonce" \
  --argjson now "$now" '{type: "MandatePresentation", $mandate_id, $verifier, $ctx, $nonce,
    issued_at: ($now | todate), expires_at: ($now + 300 | todate)}' | jcs)
config=$(jq -n --arg verifier "$verifier" --arg nonce "$nonce" --arg method "$did#${did#did:key:}" \
  --argjson now "$now" '{type: "DataIntegrityProof", cryptosuite: "eddsa-jcs-2022", created: ($now | todate),
    verificationMethod: $method, proofPurpose: "authentication", domain: $verifier, challenge: $nonce}' | jcs)
{ printf %s "$config" | sha256; printf %s "$document" | sha256; } >"$work/data"
openssl pkeyutl -sign -rawin -inkey "$key" -in "$work/data" -out "$work/signature"
presentation=$(jq -nc --argjson document "$document" --argjson config "$config" \
  --arg value "$(multibase "$(hex <"$work/signature")")" '$document + {proof: ($config + {proofValue: $value})}')
if [ "$mode" = print ]; then
  echo "$presentation"
  exit 0
fi

base=${MANDATE_URL:-http://127.0.0.1:8080}
# In a file, since the arguments of a process can be read by others.
(umask 077 && printf 'header = "authorization: Bearer %s"\n' "${MANDATE_API_KEY:?is not set}" >"$work/key")

# POST or GET with the API key; an answer that is no 2xx ends the program. curl heeds Retry-After.
api() {
  local path=$1
  shift
  # Into a file, which curl empties before it tries again.
  if ! curl -sS --fail-with-body --max-time 10 --config "$work/key" -H 'content-type: application/json' \
    -o "$work/answer" "$@" "$base$path"; then
    cat "$work/answer" >&2 || true
    return 1
  fi
  cat "$work/answer"
}
retry=(--retry 4 --retry-connrefused --retry-max-time 30)

# The same idempotency key over curl's retries: a decision is made once.
verify() {
  jq -nc --argjson presentation "$presentation" --argjson action "$action" --arg token "${1:-}" \
    '{$presentation, $action} + if $token == "" then {} else {escalation_token: $token} end' |
    api /api/v1/verify "${retry[@]}" -H "idempotency-key: $(openssl rand -hex 16)" --data-binary @-
}

result=$(verify)
if [ "$(jq -r .decision <<<"$result")" = escalate ]; then
  id=$(jq -r .escalation.id <<<"$result")
  echo "A human is asked: $id, until $(jq -r .escalation.expires_at <<<"$result")"
  status=pending
  for ((asked = 0; asked < 315; asked++)); do
    sleep 2
    escalation=$(api "/api/v1/escalations/$id" "${retry[@]}")
    status=$(jq -r .status <<<"$escalation")
    [ "$status" = pending ] || break
  done
  if [ "$status" != approved ]; then
    echo "Not approved: $status"
    exit 1
  fi
  result=$(verify "$(jq -r .escalation_token <<<"$escalation")")
fi
if [ "$(jq -r .decision <<<"$result")" != allow ]; then
  jq -r '"Denied: \(.reasons | join(", ")) \(.reason_text)"' <<<"$result"
  exit 1
fi
receipt=$(jq -r .receipt.receipt_id <<<"$result")
token=$(jq -r .consumption_token <<<"$result")
echo "Allowed: receipt $receipt"

# The sandbox's echo stands for the system that a real agent acts on; it does not get the API key. Where it fails nobody
# knows what happened: the program ends, nothing is released, the amount stays counted.
curl -sS --fail --max-time 10 -H 'content-type: application/json' --data-binary "$action" \
  "$base/api/sandbox/echo" >/dev/null

booked=$(jq -nc --argjson action "$action" --arg token "$token" --arg ctx "$ctx" \
  '{consumption_token: $token, final_amount: $action.amount.value, currency: $action.amount.currency,
    action_type: $action.type, context_digest: $ctx}
    + ($action | if has("counterparty") then {counterparty} else {} end)' |
  api /api/v1/consumptions "${retry[@]}" --data-binary @-)
# Sent once: nothing names a report that may have arrived.
reported=$(jq -nc --argjson action "$action" --arg token "$token" --arg ref "echo-$receipt" \
  '{reservation_token: $token, outcome: "erfolgreich", executed_amount: $action.amount.value,
    executed_currency: $action.amount.currency, external_ref: $ref}' |
  api /api/v1/executions --data-binary @-)
jq -r '"Booked: \(.booked.value) \(.booked.currency), \(.remaining.value) left"' <<<"$booked"
jq -r '"Execution: \(.execution_id) \(.status)"' <<<"$reported"
echo "Dossier: $base/api/v1/verifications/$receipt/dossier?mat=$(jq -r .mat_compact <<<"$result")"
