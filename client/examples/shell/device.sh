#!/usr/bin/env bash
# A device in shell: enrols with a code, polls, and prints each signal as a JSON line. Needs curl, jq and openssl.
#
#   device.sh SERVER STATE_FOLDER
#
# It shows the protocol. For a product use restante-client: it also drops duplicates, backs off with jitter, shares its
# state between processes and opens certificate bundles (a sealed box needs libsodium, which openssl does not have).
set -euo pipefail
umask 077
server=${1:?usage: device.sh SERVER STATE_FOLDER}
mkdir -p "${2:?usage: device.sh SERVER STATE_FOLDER}"
cd "$2"

# Sends a JSON body from stdin. Tokens are in files: the command line of a process can be read by others.
post() { curl -sS --max-time 60 -X POST -H 'Content-Type: application/json' --data @- "$server$1"; }

save_session() { # the object with access_token and refresh_token, from stdin
    cat > session.new && mv session.new session.json
    printf 'Authorization: Bearer %s\n' "$(jq -r .access_token session.json)" > authorization
}

enrol() {
    local code answer status
    [ -e device.pem ] || openssl genpkey -algorithm X25519 -out device.pem
    [ -e public_id ] || od -An -N16 -tx1 /dev/urandom | tr -d ' \n' |
        sed -E 's/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/\1-\2-4\3-8\4-\5/' > public_id
    code=$(post /auth/device <<< '{"action":"device_start"}')
    echo "Open $(jq -r .data.verification_uri <<< "$code") and enter $(jq -r .data.user_code <<< "$code")" >&2
    while :; do
        answer=$(jq -c '{action: "device_poll", device_code: .data.device_code}' <<< "$code" | post /auth/device)
        status=$(jq -r .data.status <<< "$answer")
        case $status in
            ready) break ;;
            authorization_pending | slow_down) sleep "$(jq -r '.data.interval // 5' <<< "$code")" ;;
            *) echo "not approved: $status" >&2; exit 1 ;;
        esac
    done
    jq -c --arg id "$(cat public_id)" \
        --arg key "$(openssl pkey -in device.pem -pubout -outform DER | tail -c 32 | base64)" \
        '{registration_code: .data.registration_code, user_id: .data.user_id, device_public_id: $id, dev_pk: $key}' \
        <<< "$answer" | post /apiv1/device/registration | jq -ec .data.session | save_session
}

refresh() { jq -c '{refresh_token}' session.json | post /auth/refresh | jq -ec .data | save_session; }

header() { sed -n "s/^$1: *\([^\r]*\)\r*$/\1/Ip" headers; }

[ -e session.json ] || enrol
while :; do
    cursor=()
    [ -e cursor ] && cursor=(-H "If-None-Match: $(cat cursor)")
    status=$(curl -sS --max-time 60 -o body -D headers -w '%{http_code}' -H @authorization "${cursor[@]}" \
        "$server/apiv1/devices/self/updates?limit=20&wait=25") || status=000
    case $status in
        200)
            jq -c '.data.signals[]' body
            # After the signals were handled: what a crash leaves out comes again.
            jq -r .data.cursor body > cursor.new && mv cursor.new cursor
            ;;
        204) header ETag > cursor.new && mv cursor.new cursor ;;
        401) refresh ;;
        409) # The server cannot continue from the cursor: fetch the whole state here, then continue where it says.
            echo "resync: $(jq -r .error.params.reason body)" >&2
            jq -r .error.params.reset_cursor body > cursor.new && mv cursor.new cursor
            ;;
        000 | 429 | 5*) sleep "$({ header Retry-After 2> /dev/null || true; echo 5; } | grep -m 1 -x '[0-9]*')" ;;
        *) echo "the server answers with $status: $(cat body)" >&2; exit 1 ;;
    esac
done
