# Switches with engines, a controller and guests before them: sourced, not run. WEIR is the program, COUNT the number of guests, MTU that
# of their interfaces; with LEVELS=2 they are behind two switches with engines, of which one sums for the other. What guests are to
# see at /host is put into $INTEROP_RUN/share before `up`.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
weir=${WEIR:-$here/../target/debug/weir}
count=${COUNT:-2}
levels=${LEVELS:-1}
mtu=${MTU:-1500}
port=52300
inccl_controller=$net.100 # where hosts of INCCL look for it
vlan=                     # guests are in this VLAN, with a tag
failed=0
[ -x "$INTEROP_DIR/linux-uml" ] || die "no guests yet: interop/setup builds them"
[ -x "$weir" ] || die "$weir is not there: WEIR names the program"
mkdir -p "$INTEROP_RUN/share"

down() {
	"$here/guests" down
	local what pid
	for what in controller switch0 switch1; do
		[ -e "$INTEROP_RUN/$what.pid" ] || continue
		pid=$(cat "$INTEROP_RUN/$what.pid")
		kill "$pid" 2>/dev/null && wait "$pid"
	done
	rm -f "$INTEROP_RUN"/*.pid "$INTEROP_RUN/state.json"
}
trap down EXIT

# The guests behind switch $1.
guests_of() {
	for n in $(seq 1 "$count"); do [ $((n % levels)) -ne "$1" ] || echo "$n"; done
}

config() {
	cat <<E
[eal]
args = ["--no-huge", "--no-pci", "--file-prefix", "weir-interop$1", "-m", "512"]
[mgmt]
listen = "off"
socket = "$INTEROP_RUN/weir$1.sock"
[qos]
preset = "roce-lossless"
[buffer]
size = "8MiB"
cell_bytes = 256
[pfc]
poll_gap = "100us"
[port_defaults]
rate = "10G"
mtu = $((mtu + 18))
E
	local tagged=${vlan:+"vlan = { trunk = \"$vlan\" }"} untagged=${vlan:+"vlan = { access = $vlan }"}
	for n in $(guests_of "$1"); do printf '[[port]]\nname = "p%d"\ndevice = "net_af_packet%d,iface=ep%dt"\n%s\n' "$n" "$n" "$n" "$tagged"; done
	[ "$1" -ne 0 ] || printf '[[port]]\nname = "ctl"\ndevice = "net_af_packet8,iface=ctl0"\n%s\n' "$untagged"
	[ "$levels" -eq 1 ] || printf '[[port]]\nname = "trunk"\ndevice = "net_af_packet9,iface=trunk%d"\n%s\n' "$1" "$untagged"
	printf '[[port]]\nname = "inc0"\ndevice = "inc"\ninc = { mac = "02:00:00:00:01:0%d", ip = "%s.20%d", memory = "64MiB", quota = "16MiB" }\n%s\n' "$1" $net "$1" "$untagged"
}

fabric() {
	for s in $(seq 0 $((levels - 1))); do
		printf '[[switch]]\nname = "weir%d"\napi = "%s"\nengine = { port = "inc0", mac = "02:00:00:00:01:0%d", ip = "%s.20%d" }\n' \
			"$s" "$INTEROP_RUN/weir$s.sock" "$s" $net "$s"
		for n in $(guests_of "$s"); do
			printf '[[host]]\nname = "ep%d"\nip = "%s.%d"\nmac = "52:54:00:77:00:%02x"\nswitch = "weir%d"\n' "$n" $net "$n" "$n" "$s"
		done
	done
	[ "$levels" -eq 1 ] || printf '[[link]]\na = "weir0"\nb = "weir1"\n'
}

# Two ends of a cable in the namespace.
cable() {
	inside ip link add "$1" type veth peer name "$2"
	for end in "$1" "$2"; do
		inside ip link set "$end" mtu "$mtu" up
		inside ethtool -K "$end" tx off gso off tso off gro off >/dev/null
	done
}

up() {
	"$here/guests" taps "$count"
	for n in $(seq 1 "$count"); do inside ip link set "ep${n}t" mtu "$mtu"; done
	# A way from the guests to the controller.
	cable ctl0 ctl1
	inside ip addr add $net.100/24 dev ctl1
	[ "$inccl_controller" = $net.100 ] || inside ip addr add "$inccl_controller/32" dev ctl1
	[ "$levels" -eq 1 ] || cable trunk0 trunk1
	fabric >"$INTEROP_RUN/fabric.toml"
	(umask 077 && echo s3cret >"$INTEROP_RUN/token")
	for s in $(seq 0 $((levels - 1))); do
		config "$s" >"$INTEROP_RUN/weir$s.toml"
		ip netns exec $netns timeout -s KILL 1800 "$weir" run "$INTEROP_RUN/weir$s.toml" >"$INTEROP_RUN/switch$s.log" 2>&1 &
		echo $! >"$INTEROP_RUN/switch$s.pid"
		for _ in $(seq 300); do [ -S "$INTEROP_RUN/weir$s.sock" ] && break; sleep 0.2; done
		[ -S "$INTEROP_RUN/weir$s.sock" ] || die "switch $s did not start: $(tail -n 5 "$INTEROP_RUN/switch$s.log")"
	done
	ip netns exec $netns timeout -s KILL 1800 "$weir" inc controller "$INTEROP_RUN/fabric.toml" --listen $net.100:$port --token-file "$INTEROP_RUN/token" \
		--state "$INTEROP_RUN/state.json" --inccl "$inccl_controller:52200" >"$INTEROP_RUN/controller.log" 2>&1 &
	echo $! >"$INTEROP_RUN/controller.pid"
	INTEROP_MTU=$mtu "$here/guests" up "$count" "$INTEROP_RUN/share" || die "the guests did not start"
	for n in $(seq 1 "$count"); do
		[ -z "$vlan" ] || vm "ep$n" run "ip addr flush dev eth0; ip link add link eth0 name eth0.$vlan type vlan id $vlan &&
			ip link set eth0.$vlan mtu $((mtu - 4)) up && ip addr add $net.$n/24 dev eth0.$vlan"
	done
}

verdict() {
	if [ "$2" -eq 0 ]; then echo "$1: ok"; return; fi
	failed=1
	echo "$1: FAILED"
	tail -n 5 "$INTEROP_RUN"/ep*.out "$INTEROP_RUN/controller.log"
	for s in $(seq 0 $((levels - 1))); do
		for what in inc_drops drops; do "$weir" show $what --socket "$INTEROP_RUN/weir$s.sock"; done
		"$weir" show events --socket "$INTEROP_RUN/weir$s.sock" | grep ' inc ' | grep -v ' retry ' | tail -n 5
	done
}
