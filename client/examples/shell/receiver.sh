#!/usr/bin/env bash
# A receiver of events in shell: gets a token, polls, verifies each event (PS256, RS256), stores it, acknowledges it with
# the next poll, and prints its claims as a JSON line. Needs curl, jq and openssl.
#
#   receiver.sh SERVER CLIENT_ID STATE_FOLDER
#
# The state folder has the file `secret` (client_secret_basic, for development).
#
# It shows the protocol. For a product use restante-client: it also has private_key_jwt, mutual TLS, ES256 and EdDSA.
set -euo pipefail
umask 077
server=${1:?usage: receiver.sh SERVER CLIENT_ID STATE_FOLDER} client=${2:?usage: receiver.sh SERVER CLIENT_ID STATE_FOLDER}
cd "${3:?usage: receiver.sh SERVER CLIENT_ID STATE_FOLDER}"
mkdir -p events keys
echo '{}' > errors

decoded() { # base64url from stdin
    local text
    text=$(tr -- '-_' '+/')
    while ((${#text} % 4)); do text+='='; done
    base64 -d <<< "$text"
}
hex() { decoded | od -An -v -tx1 | tr -d ' \n'; }

get_token() {
    # The credentials come from stdin: the command line of a process can be read by others.
    printf 'user = "%s:%s"\n' "$client" "$(cat secret)" |
        curl -sS --fail-with-body --max-time 30 -K - -d grant_type=client_credentials -d scope=eventpolling "$server/token" |
        jq -r '"Authorization: Bearer " + .access_token' > authorization
}

read_keys() { # the RSA keys of the JWKS as keys/KID.pem
    local key kid
    while IFS= read -r key; do
        kid=$(jq -r .kid <<< "$key")
        [[ $kid =~ ^[A-Za-z0-9_-]+$ ]] || continue
        cat > key.cnf << END
asn1=SEQUENCE:info
[info]
algorithm=SEQUENCE:algorithm
key=BITWRAP,SEQUENCE:numbers
[algorithm]
oid=OID:rsaEncryption
parameter=NULL
[numbers]
n=INTEGER:0x$(jq -r .n <<< "$key" | hex)
e=INTEGER:0x$(jq -r .e <<< "$key" | hex)
END
        openssl asn1parse -genconf key.cnf -noout -out key.der
        openssl pkey -pubin -inform DER -in key.der -out "keys/$kid.pem"
    done < <(curl -sS --fail-with-body --max-time 30 "$server/jwks.json" | jq -c '.keys[] | select(.kty == "RSA")')
}

is_genuine() { # jti, token
    local header claims kid options=()
    [[ $2 =~ ^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$ ]] || return 1
    header=$(decoded <<< "${2%%.*}") claims=$(cut -d . -f 2 <<< "$2" | decoded) || return 1
    kid=$(jq -r .kid <<< "$header")
    [[ $kid =~ ^[A-Za-z0-9_-]+$ ]] || return 1
    [ -e "keys/$kid.pem" ] || read_keys
    case $(jq -r .alg <<< "$header") in
        PS256) options=(-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32) ;;
        RS256) ;;
        *) return 1 ;;
    esac
    # Every critical header must be one that this program knows.
    jq -e '(.crit // []) - (["iat", "iss", "tan"] | map("http://openbanking.org.uk/" + .)) == []' <<< "$header" > /dev/null &&
        jq -e --arg jti "$1" --arg client "$client" \
            '.jti == $jti and ([.aud] | flatten | index($client) != null)' <<< "$claims" > /dev/null &&
        cut -d . -f 3 <<< "$2" | decoded > signature &&
        printf %s "${2%.*}" |
        openssl dgst -sha256 "${options[@]}" -verify "keys/$kid.pem" -signature signature > /dev/null 2>&1
}

while :; do
    # Acknowledge what is on disk and not acknowledged yet.
    find events -name '*.jwt' -printf '%f\n' | sed 's/\.jwt$//' | jq -R . | jq -sc . > stored
    jq -c --slurpfile errors errors '{ack: ., setErrs: $errors[0], maxEvents: 50}
        | if (.ack | length) > 0 or .setErrs != {} then .returnImmediately = true else . end
        | if .setErrs == {} then del(.setErrs) else . end' stored > request
    status=$(curl -sS --max-time 60 -o body -w '%{http_code}' -X POST -H @authorization \
        -H 'Content-Type: application/json' --data @request "$server/open-banking/v4.0/events") || status=000
    case $status in
        200) ;;
        401) get_token; continue ;;
        *) sleep 5; continue ;;
    esac
    # The server has these acknowledgements now.
    jq -r '.[]' stored | while IFS= read -r jti; do mv "events/$jti.jwt" "events/$jti.acknowledged"; done
    echo '{}' > errors
    while IFS=$'\t' read -r jti token; do
        if ! [[ $jti =~ ^[A-Za-z0-9_-]+$ ]] || ! is_genuine "$jti" "$token"; then
            jq -c --arg jti "$jti" '.[$jti] = {err: "authentication_failed", description: "not verified"}' errors > errors.new
            mv errors.new errors
            continue
        fi
        [ -e "events/$jti.acknowledged" ] || cut -d . -f 2 <<< "$token" | decoded | jq -c .
        # On disk before it is acknowledged.
        printf %s "$token" > "events/$jti.new" && sync "events/$jti.new" && mv "events/$jti.new" "events/$jti.jwt"
    done < <(jq -r '.sets | to_entries[] | [.key, .value] | @tsv' body)
done
