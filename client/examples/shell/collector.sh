#!/usr/bin/env bash
# A collector in shell: polls, verifies, executes each command at most once, acknowledges. Needs curl, jq and openssl.
#
#   collector.sh SERVER STATE_FOLDER HANDLER
#
# The state folder has the files `token` and `secret`. HANDLER is a program: it gets the command as JSON on its standard
# input and carries it out; exit code 0 means succeeded, any other failed.
#
# It shows the protocol. For a product use restante-client: it also spools ACKs, keeps leases and checks nonces on disk.
# `jq -S` writes the canonical JSON of every command except one with the character U+007F, which is then refused here.
set -euo pipefail
umask 077
server=${1:?usage: collector.sh SERVER STATE_FOLDER HANDLER}
handler=$(realpath "${3:?usage: collector.sh SERVER STATE_FOLDER HANDLER}")
cd "${2:?usage: collector.sh SERVER STATE_FOLDER HANDLER}"
mkdir -p executed
printf 'Authorization: Bearer %s\n' "$(cat token)" > authorization
signed='{command_id, site_id, zone_id, miner_id, command_type, params, priority, expires_at, dedupe_key, signed_at, nonce}'

# HMAC-SHA256 of stdin with the text of the secret, written out: `openssl dgst -hmac` would show the secret to everybody
# who can list processes. The secret has 64 characters, as many as SHA-256 has bytes in a block.
xored_key() {
    local key i code byte bytes=
    key=$(< secret)
    for ((i = 0; i < 64; i++)); do
        printf -v code %d "'${key:i:1}"
        printf -v byte '\\x%02x' "$((code ^ $1))"
        bytes+=$byte
    done
    printf %b "$bytes"
}
hmac() {
    { xored_key 0x5c; { xored_key 0x36; cat; } | openssl dgst -sha256 -binary; } | openssl dgst -sha256 -r | cut -d ' ' -f 1
}

acknowledge() { # command_id, body
    until curl -sS --fail-with-body --retry 5 --max-time 30 -o answer -X POST -H @authorization \
        -H 'Content-Type: application/json' --data @- "$server/api/edge/v1/commands/$1/ack" <<< "$2"; do
        # Refused for good (the lease has ended, say) or unreachable: only the latter is worth another try.
        jq -e .error answer > /dev/null 2>&1 && { echo "ACK refused: $(cat answer)" >&2; return; }
        sleep 2
    done
}

result() { # command, status, code, message
    jq -c --arg status "$2" --arg code "$3" --arg message "$4" \
        '{status: $status, result_code: $code, message: $message, nonce, attempt}' <<< "$1"
}

carry_out() {
    local command=$1 id
    id=$(jq -r .command_id <<< "$command")
    [[ $id =~ ^[A-Za-z0-9_-]+$ ]] || { echo "not a command id: $id" >&2; return; }
    if [ "$(jq -cjS "$signed" <<< "$command" | hmac)" != "$(jq -r .signature <<< "$command")" ]; then
        acknowledge "$id" "$(result "$command" deferred SIGNATURE_INVALID 'the signature is not valid here')"
    elif [ -e "executed/$id" ] && ! grep -q '^failed' "executed/$id"; then
        # Executed before: its result again, or, if the program ended meanwhile, "I will not run it again".
        if [ -s "executed/$id" ]; then
            acknowledge "$id" "$(result "$command" "$(cat "executed/$id")" 0 'reported again')"
        else
            acknowledge "$id" "$(result "$command" skipped 2 DUPLICATE_IGNORED | jq -c '.result_code = 2')"
        fi
    else
        # On disk before the execution: after a crash it is not executed again.
        : > "executed/$id" && sync "executed/$id"
        local outcome=succeeded
        "$handler" <<< "$command" > output 2>&1 || outcome=failed
        echo "$outcome" > "executed/$id.new" && mv "executed/$id.new" "executed/$id"
        acknowledge "$id" "$(result "$command" "$outcome" 0 "$(head -c 500 output)")"
    fi
}

while :; do
    if curl -sS --fail-with-body --max-time 60 -o body -H @authorization \
        "$server/api/edge/v1/commands/poll?limit=5&wait=25"; then
        while IFS= read -r command; do carry_out "$command"; done < <(jq -c '.commands[]' body)
    else
        sleep 5
    fi
done
