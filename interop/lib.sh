# Shared settings; sourced, not run.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export INTEROP_DIR=${INTEROP_DIR:-${TMPDIR:-/tmp}/weir-interop} # guest kernel and images, built once
export INTEROP_RUN=${INTEROP_RUN:-$INTEROP_DIR/run}             # sockets, pids, logs of a run
netns=weir-interop
net=10.77.0 # guests are $net.1, $net.2, ...
mkdir -p "$INTEROP_RUN"
die() { echo "$*" >&2; exit 1; }
inside() { ip netns exec $netns "$@"; }
vm() { "$here/vmctl.py" "$@"; }
