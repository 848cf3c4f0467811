# Sourced by the `run` script of each scenario. Starts weir and testpmd on memif, types what the scenario says when the
# step before it is done, and compares what came out. Nothing depends on how fast the machine is: every wait is for a
# count, and gives up after $PATIENCE seconds.
#
# A `run` script ends with 0: passed, 1: failed (files are kept), 77: cannot run here, and why.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
name=$(basename "$here")
root=$here/../..
PATIENCE=${PATIENCE:-60}
dir=$(mktemp -d "${TMPDIR:-/tmp}/weir-$name.XXXXXX")
weir_pid= testpmd_pid=

say() { echo "$name: $*"; }
skip() { say "skipped: $*"; rm -r "$dir"; trap - EXIT; exit 77; }
fail() { say "FAILED: $*"; say "see $dir"; exit 1; }

finish() {
    local status=$?
    exec 9>&- || true
    # weir is asked to stop, so that its totals are in the log.
    [ -z "$weir_pid" ] || kill -TERM "$weir_pid" 2>/dev/null || true
    [ -z "$weir_pid" ] || timeout 5 tail -s 0.1 --pid="$weir_pid" -f /dev/null || true
    for pid in $testpmd_pid $weir_pid; do
        if kill -0 "$pid" 2>/dev/null; then kill -KILL "$pid"; fi
    done
    [ "$status" -ne 0 ] || rm -r "$dir"
    exit "$status"
}
trap finish EXIT

command -v dpdk-testpmd >/dev/null || skip "dpdk-testpmd is missing (apt-get install dpdk-dev)"
command -v jq >/dev/null || skip "jq is missing (apt-get install jq)"
weir=${WEIR:-}
for built in "$root/target/release/weir" "$root/target/debug/weir"; do
    [ -n "$weir" ] || [ ! -x "$built" ] || weir=$built
done
[ -n "$weir" ] || skip "weir is not built (cargo build -p weir, or set WEIR)"

# Waits until a command succeeds.
await() {
    local what=$1 end=$((SECONDS + PATIENCE))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || fail "waited $PATIENCE s for $what"
        sleep 0.1
    done
}

# Starts weir with the scenario's configuration. Sockets get a name of their own, so that scenarios may run side by side.
start_weir() {
    sed "s/socket=weir/socket=weir-$$/" "$here/weir.toml" >"$dir/weir.toml"
    "$weir" run "$dir/weir.toml" --summary "$dir/summary.json" >"$dir/weir.log" 2>&1 &
    weir_pid=$!
    await "weir to start" weir_is_up
}
weir_is_up() {
    kill -0 "$weir_pid" 2>/dev/null || { cat "$dir/weir.log"; fail "weir did not start"; }
    grep -qE '^switch .* workers?$' "$dir/weir.log"
}

# Starts testpmd with the scenario's arguments and its commands.
start_testpmd() {
    local args
    mapfile -t args < <(sed -e 's/#.*//' -e "s/socket=weir/socket=weir-$$/" "$here/testpmd.args" | xargs -n1)
    mkfifo "$dir/keyboard"
    (cd "$dir" && RUNTIME_DIRECTORY="$dir" exec stdbuf -oL dpdk-testpmd --file-prefix="weir-$$" "${args[@]}" --cmdline-file="$here/commands") \
        <"$dir/keyboard" >"$dir/testpmd.log" 2>&1 &
    testpmd_pid=$!
    exec 9>"$dir/keyboard"
}

# Types a line into testpmd.
type_in() {
    kill -0 "$testpmd_pid" 2>/dev/null || { tail -n 5 "$dir/testpmd.log"; fail "testpmd is gone"; }
    echo "$1" >&9
}

# Waits until testpmd sees every link up, then starts forwarding: what it sends before is lost.
start_forwarding() {
    await "every port of testpmd to be up" links_are_up
    # weir looks at its links every 20 ms and does not print what it sees.
    sleep 1
    type_in start
}
links_are_up() {
    type_in "show port summary all"
    sleep 0.1
    awk '/^Number of available ports/ { ports = $NF; up = 0 }
        / up /                        { up++ }
        END                           { exit !(ports && up == ports) }' "$dir/testpmd.log"
}

# Waits until port $1 of testpmd has sent $2 frames.
await_sent() { await "port $1 of testpmd to send $2 frames" has_sent "$1" "$2"; }
has_sent() {
    type_in "show port stats $1"
    sleep 0.1
    awk -v port="$1" -v want="$2" '
        /NIC statistics for port/ { now = $6 }
        /TX-packets:/ && now == port { for (i = 1; i < NF; i++) if ($i == "TX-packets:") sent = $(i + 1); now = "" }
        END { exit !(sent + 0 >= want) }' "$dir/testpmd.log"
}

# Ends both; weir drains and writes its summary.
stop_both() {
    type_in stop
    type_in quit
    exec 9>&-
    # testpmd's exit code says nothing: closing a memif whose peer is there may crash it.
    wait "$testpmd_pid" 2>/dev/null || true
    testpmd_pid=
    kill -TERM "$weir_pid"
    local status=0
    wait "$weir_pid" || status=$?
    weir_pid=
    [ "$status" -eq 0 ] || { tail -n 5 "$dir/weir.log"; fail "weir ended with exit code $status"; }
}

# Writes frames, one per line in hex on standard input, into a capture file.
write_pcap() {
    le32() { printf '%02x%02x%02x%02x' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)); }
    {
        printf 'd4c3b2a1020004000000000000000000ffff000001000000'
        while read -r hex; do
            le32 0 && le32 0 && le32 $((${#hex} / 2)) && le32 $((${#hex} / 2))
            printf '%s' "$hex"
        done
    } | sed 's/../\\x&/g' | while read -r -N 4000 part || [ -n "$part" ]; do printf '%b' "$part"; done >"$1"
}

# The frames of a capture file, one per line in hex.
read_pcap() {
    local hex at len
    hex=$(od -An -v -tx1 "$1" | tr -d ' \n')
    for ((at = 48; at < ${#hex}; at += 32 + 2 * len)); do
        len=$((16#${hex:at + 22:2}${hex:at + 20:2}${hex:at + 18:2}${hex:at + 16:2}))
        echo "${hex:at + 32:2 * len}"
    done
}

# An untagged IPv4/UDP frame in hex: DSCP, sequence number, bytes (60 to 1514), then the last byte of the addresses.
frame() {
    local dscp=$1 seq=$2 bytes=$3 dst=$4 src=$5 ip sum=0 word
    ip=$(printf '45%02x%04x%04x0000' $((dscp << 2)) $((bytes - 14)) "$seq")
    ip+=$(printf '4011%%s0a0000%s0a0000%s' "$src" "$dst")
    for word in $(printf "$ip" 0000 | fold -w4); do sum=$((sum + 16#$word)); done
    sum=$(((sum & 0xffff) + (sum >> 16)))
    sum=$(((~((sum & 0xffff) + (sum >> 16))) & 0xffff))
    printf '0200000000%s0200000000%s0800' "$dst" "$src"
    printf "$ip" "$(printf %04x $sum)"
    printf '12b712b7%04x0000%08x' $((bytes - 34)) "$seq"
    printf "%0$((2 * (bytes - 46)))d\n" 0
}

# A PFC frame in hex: enable bits, then the time of every enabled priority, in quanta.
pfc() {
    local priority
    printf '0180c20000010200000000028808010100%02x' "$1"
    for priority in 0 1 2 3 4 5 6 7; do printf %04x $((($1 >> priority & 1) * $2)); done
    printf '%052d\n' 0
}

# The summary holds what expected.json says: equal values; {"min": n} and {"max": n} are bounds.
check_summary() {
    jq -n --slurpfile got "$dir/summary.json" --slurpfile want "$here/expected.json" '
        def differ($path; $want): . as $got |
            if ($want | type) == "object" and ($want | length) > 0 then
                if ($want | keys - ["min", "max"] | length) == 0 then
                    if $got >= ($want.min // $got) and $got <= ($want.max // $got) then empty
                    else "\($path) is \($got), not within \($want)" end
                else $want | keys[] as $k | ($got | .[$k]?) | differ($path + "." + $k; $want[$k]) end
            elif ($want | type) == "array" then
                range([($want | length), ($got | length)] | max) as $i
                | $got[$i] | differ("\($path)[\($i)]"; $want[$i])
            elif $got == $want then empty
            else "\($path) is \($got), not \($want)" end;
        $got[0] | [differ(""; $want[0])]' >"$dir/differences.json"
    [ "$(jq length "$dir/differences.json")" -eq 0 ] || { jq -r '.[]' "$dir/differences.json"; fail "the summary differs"; }
}

# The frames of a capture are those of a list, in order and byte for byte.
check_frames() {
    read_pcap "$1" >"$1.hex"
    cmp -s "$1.hex" "$2" || fail "$(basename "$1") holds $(wc -l <"$1.hex") frames and should be the $(wc -l <"$2") of $(basename "$2")"
}
