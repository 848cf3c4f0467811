/* A host that has nothing of contrib/inc: libibverbs and sockets alone, written from docs/inc.md. It does what other people's
 * programs may do otherwise than ours, and checks every sum.
 *
 *   verbs_host WORLD RANK FIRST CONTROLLER [key=value ...]
 *
 * FIRST is the IPv4 address of rank 0, CONTROLLER the address and port of the controller. Keys, with what they are unless given:
 *   meet=inccl      how a queue pair is agreed on: rank 0 speaks for all in the words of INCCL; `json`: each for itself
 *   job=NAME token=NAME kind=all_reduce root=0 join_mtu=1024 window=256 psn=-1 patience=0   of `json`; -1, 0: not said
 *   groups=1        communicators one after the other, each with a queue pair of its own
 *   messages=64 bytes=4096 depth=2     messages, their bytes, how many are outstanding
 *   mtu=1024 timeout=18 retry=6 rnr=7 rnr_timer=12      of the queue pair
 *   write=0         RDMA WRITE: 1, and the sum comes where the WRITE said (INCCL)
 *   imm=0           a word of immediate data with every message
 *   inline=0 signal=1 batch=1 pieces=1 srq=0 offset=0   inline data; every Nth is signalled; N in a list; N pieces; shared
 *                   receive queue; buffers begin so many bytes off
 *   receive=before  when receive buffers are posted: `after` the send that they are for
 *   late=0          ms between the meeting and the queue pair's first word
 *   hold=0          ms that a queue pair lives after its last result; with 0 it is destroyed at once
 *   expect=         what has to end it: the number of a status of completion, or `word:N`, the engine's word of failure N (or what is sent is refused for it)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_HOSTS 64
#define MOST_PIECES 4
/* TCP port at which the other ranks find rank 0. */
#define MEETING_PORT 52223
/* What the bytes of element `i` of message `m` of a rank are; sums of these overflow now and then. */
#define ELEMENT(rank, m, i) ((uint32_t)(rank) * 2654435761u + (uint32_t)(m) * 40503u + (uint32_t)(i))

static int world, rank, count_of_options;
/* Its place in the order of folding, which is what a root is named by. */
static int place;
static char **options;
static const char *first, *controller;

static void die(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "rank %d: ", rank);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	exit(1);
}

static const char *text(const char *key, const char *usual)
{
	size_t length = strlen(key);
	/* The last word counts. */
	for (int n = count_of_options - 1; n >= 0; n--)
		if (!strncmp(options[n], key, length) && options[n][length] == '=')
			return options[n] + length + 1;
	return usual;
}

static long number(const char *key, long usual)
{
	const char *value = text(key, NULL);
	return value ? strtol(value, NULL, 0) : usual;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* ---- TCP ---- */

static int dial(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	if (getaddrinfo(host, port, &hints, &found))
		die("no address %s:%s", host, port);
	for (int tries = 0; tries < 300; tries++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd >= 0 && !connect(fd, found->ai_addr, found->ai_addrlen)) {
			freeaddrinfo(found);
			return fd;
		}
		close(fd);
		pause_ms(100);
	}
	die("%s:%s does not answer", host, port);
	return -1;
}

static int dial_controller(void)
{
	char host[64];
	snprintf(host, sizeof host, "%s", controller);
	char *colon = strrchr(host, ':');
	if (!colon)
		die("CONTROLLER is ADDRESS:PORT");
	*colon = 0;
	return dial(host, colon + 1);
}

static void put(int fd, const void *from, size_t bytes)
{
	if (send(fd, from, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		die("cannot send: %s", strerror(errno));
}

static void get(int fd, void *to, size_t bytes)
{
	if (recv(fd, to, bytes, MSG_WAITALL) != (ssize_t)bytes)
		die("the connection has ended");
}

/* ---- agreeing on a queue pair ---- */

/* What a queue pair has to be told. */
struct seat {
	struct in_addr ip;
	uint32_t qpn, send_psn, recv_psn, mtu;
	int rank;
};

/* Connections of a meeting: of rank 0 one to each other rank, of others one to rank 0. */
static int ranks[MOST_HOSTS], speaker = -1;
static struct in_addr addresses[MOST_HOSTS];

static void meet(struct in_addr own)
{
	uint32_t here = (uint32_t)rank;
	if (rank) {
		ranks[0] = dial(first, "52223");
		put(ranks[0], &here, 4);
		put(ranks[0], &own, 4);
		return;
	}
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(MEETING_PORT) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, world))
		die("cannot listen: %s", strerror(errno));
	addresses[0] = own;
	for (int n = 1; n < world; n++) {
		int fd = accept(listener, NULL, NULL);
		uint32_t who;
		get(fd, &who, 4);
		if (who >= (uint32_t)world || !who)
			die("rank %u of %d", who, world);
		ranks[who] = fd;
		get(fd, &addresses[who], 4);
	}
	close(listener);
	/* `G`, how many, an address of each; the answer is the number of the group. */
	uint32_t size = (uint32_t)world, group;
	speaker = dial_controller();
	put(speaker, "G", 1);
	put(speaker, &size, 4);
	put(speaker, addresses, 4 * (size_t)world);
	get(speaker, &group, 4);
	printf("group %u\n", group);
}

/* The value behind `key` in `from`, up to `until`. */
static const char *behind(const char *from, const char *until, const char *key)
{
	const char *at = from ? strstr(from, key) : NULL;
	if (!at || (until && at > until))
		die("no `%s` in what the controller says", key);
	at += strlen(key);
	return at + strspn(at, ": \"");
}

/* An INCCL communicator: every rank's queue pair to rank 0, which asks for all and passes the file on. */
static struct seat ask_inccl(uint32_t qpn)
{
	uint32_t qpns[MOST_HOSTS] = { qpn }, length;
	if (rank) {
		put(ranks[0], &qpn, 4);
	} else {
		for (int n = 1; n < world; n++)
			get(ranks[n], &qpns[n], 4);
		put(speaker, "C", 1);
		put(speaker, qpns, 4 * (size_t)world);
	}
	int from = rank ? ranks[0] : speaker;
	get(from, &length, 4);
	char *file = calloc(1, ntohl(length) + 1);
	get(from, file, ntohl(length));
	for (int n = 1; !rank && n < world; n++) {
		put(ranks[n], &length, 4);
		put(ranks[n], file, ntohl(length));
	}
	char own[32], ip[INET_ADDRSTRLEN];
	snprintf(own, sizeof own, "host_id: %d\n", rank);
	const char *entry = strstr(file, own);
	if (!entry)
		die("rank %d is not in the file:\n%s", rank, file);
	const char *next = strstr(entry, "- up:");
	struct seat seat = { .mtu = 1024, .rank = rank };
	snprintf(ip, sizeof ip, "%.*s", (int)strcspn(behind(entry, next, "my_ip"), "\""), behind(entry, next, "my_ip"));
	if (inet_pton(AF_INET, ip, &seat.ip) != 1)
		die("my_ip is `%s`", ip);
	seat.qpn = (uint32_t)strtoul(behind(entry, next, "my_qp"), NULL, 10);
	free(file);
	return seat;
}

static struct seat ask_json(uint32_t qpn, struct in_addr own, const uint8_t *mac)
{
	static char line[65536];
	char ip[INET_ADDRSTRLEN], *kind, extra[160] = "";
	const char *name = text("kind", "all_reduce");
	size_t length = 0;
	inet_ntop(AF_INET, &own, ip, sizeof ip);
	if (!strcmp(name, "broadcast"))
		asprintf(&kind, "{\"kind\": \"%s\", \"root\": %ld}", name, number("root", 0));
	else if (!strcmp(name, "barrier"))
		asprintf(&kind, "{\"kind\": \"%s\"}", name);
	else
		asprintf(&kind, "{\"kind\": \"%s\", \"operator\": \"sum\", \"type\": \"u32\", \"byte_order\": \"big\"}", name);
	if (number("psn", -1) >= 0)
		snprintf(extra, sizeof extra, ", \"psn\": %ld", number("psn", -1));
	if (number("patience", 0))
		snprintf(extra + strlen(extra), sizeof extra - strlen(extra), ", \"patience_ns\": %ld", number("patience", 0) * 1000000);
	speaker = dial_controller();
	dprintf(speaker,
		"{\"join\": {\"token\": \"%s\", \"job\": \"%s\", \"hosts\": %d, \"index\": %d, \"ip\": \"%s\", "
		"\"mac\": \"%02x:%02x:%02x:%02x:%02x:%02x\", \"qpn\": %u, \"operation\": %s, \"mtu\": %ld, \"window\": %ld%s}}\n",
		text("token", "s3cret"), text("job", "verbs"), world, rank, ip, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], qpn,
		kind, number("join_mtu", 1024), number("window", 256), extra);
	free(kind);
	while (length < sizeof line - 1 && recv(speaker, line + length, 1, 0) == 1 && line[length] != '\n')
		length++;
	if (!strstr(line, "\"seat\""))
		die("the controller says: %s", line);
	struct seat seat = { 0 };
	snprintf(ip, sizeof ip, "%.*s", (int)strcspn(behind(line, NULL, "\"ip\""), "\""), behind(line, NULL, "\"ip\""));
	inet_pton(AF_INET, ip, &seat.ip);
	seat.qpn = (uint32_t)strtoul(behind(line, NULL, "\"qpn\""), NULL, 10);
	seat.send_psn = (uint32_t)strtoul(behind(line, NULL, "\"send_psn\""), NULL, 10);
	seat.recv_psn = (uint32_t)strtoul(behind(line, NULL, "\"recv_psn\""), NULL, 10);
	seat.mtu = (uint32_t)strtoul(behind(line, NULL, "\"mtu\""), NULL, 10);
	seat.rank = atoi(behind(line, NULL, "\"rank\""));
	return seat;
}

/* ---- the adapter ---- */

static struct ibv_context *context;
static int gid_index;

static void open_adapter(struct in_addr *own, uint8_t *mac)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	context = list && *list ? ibv_open_device(*list) : NULL;
	if (!context)
		die("no RDMA device");
	for (;; gid_index++) {
		struct ibv_gid_entry entry;
		static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
		if (ibv_query_gid_ex(context, 1, (uint32_t)gid_index, &entry, 0))
			die("no RoCEv2 address of IPv4");
		if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || memcmp(entry.gid.raw, mapped, 12))
			continue;
		struct ifreq name = { 0 };
		int fd = socket(AF_INET, SOCK_DGRAM, 0);
		memcpy(own, entry.gid.raw + 12, 4);
		if (!if_indextoname(entry.ndev_ifindex, name.ifr_name) || ioctl(fd, SIOCGIFHWADDR, &name))
			die("no MAC address: %s", strerror(errno));
		memcpy(mac, name.ifr_hwaddr.sa_data, 6);
		close(fd);
		return;
	}
}

static enum ibv_mtu verbs_mtu(long bytes)
{
	for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		if (bytes == 128l << mtu)
			return (enum ibv_mtu)mtu;
	die("mtu is %ld", bytes);
	return IBV_MTU_256;
}

static void change(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask, const char *what)
{
	if (ibv_modify_qp(qp, &attr, mask))
		die("%s: %s", what, strerror(errno));
}

static void make_ready(struct ibv_qp *qp)
{
	change(qp,
	       (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT,
				     .port_num = 1,
				     .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

static void join_ends(struct ibv_qp *qp, const struct seat *seat)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = verbs_mtu(number("mtu", seat->mtu)),
				    .dest_qp_num = seat->qpn,
				    .rq_psn = seat->recv_psn,
				    .min_rnr_timer = (uint8_t)number("rnr_timer", 12),
				    .ah_attr = { .is_global = 1,
						 .port_num = 1,
						 .grh = { .hop_limit = 1, .sgid_index = (uint8_t)gid_index } } };
	attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
	memcpy(attr.ah_attr.grh.dgid.raw + 12, &seat->ip, 4);
	change(qp, attr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		       IBV_QP_MIN_RNR_TIMER,
	       "RTR");
	change(qp,
	       (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .sq_psn = seat->send_psn,
				     .timeout = (uint8_t)number("timeout", 18),
				     .retry_cnt = (uint8_t)number("retry", 6),
				     .rnr_retry = (uint8_t)number("rnr", 7) },
	       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	       "RTS");
}

/* ---- sums ---- */

/* A queue pair and its messages: slot n of the first half of the buffer is sent, of the second received. */
struct link {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *buffer;
	size_t stride;
	long depth, messages, bytes, posted, received, sent;
};

static uint8_t *slot(const struct link *link, long half, long n)
{
	return link->buffer + number("offset", 0) + (size_t)(half * link->depth + n % link->depth) * link->stride;
}

/* The buffer in pieces: of odd lengths, but for the last. */
static int cut(const struct link *link, uint8_t *at, long bytes, struct ibv_sge *pieces)
{
	int wanted = (int)number("pieces", 1), n = 0;
	for (; n + 1 < wanted && n + 1 < MOST_PIECES && bytes > 7; n++, at += 7, bytes -= 7)
		pieces[n] = (struct ibv_sge){ (uintptr_t)at, 7, link->mr->lkey };
	pieces[n] = (struct ibv_sge){ (uintptr_t)at, (uint32_t)bytes, link->mr->lkey };
	return n + 1;
}

static void post_receive(struct link *link, long n)
{
	struct ibv_sge pieces[MOST_PIECES];
	struct ibv_recv_wr work = { .wr_id = (uint64_t)n, .sg_list = pieces }, *bad;
	work.num_sge = cut(link, slot(link, 1, n), link->bytes ? link->bytes : 4, pieces);
	if (link->srq ? ibv_post_srq_recv(link->srq, &work, &bad) : ibv_post_recv(link->qp, &work, &bad))
		die("a receive buffer: %s", strerror(errno));
}

static int is_source(void)
{
	return strcmp(text("kind", "all_reduce"), "broadcast") || place == number("root", 0);
}

/* Posts sends in a list. */
static void post_sends(struct link *link, long many)
{
	struct ibv_sge pieces[64][MOST_PIECES];
	struct ibv_send_wr work[64], *bad;
	int write = (int)number("write", 0);
	long every = number("signal", 1);
	memset(work, 0, sizeof work);
	for (long n = 0; n < many; n++) {
		long m = link->posted + n, bytes = is_source() ? link->bytes : 0;
		uint8_t *at = slot(link, 0, m);
		for (long i = 0; i < bytes / 4; i++) {
			uint32_t element = htonl(ELEMENT(place, m, i));
			memcpy(at + 4 * i, &element, 4);
		}
		work[n] = (struct ibv_send_wr){ .wr_id = (uint64_t)m, .sg_list = pieces[n], .next = n + 1 < many ? &work[n + 1] : NULL };
		work[n].num_sge = bytes ? cut(link, at, bytes, pieces[n]) : 0;
		work[n].opcode = number("imm", 0) ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
		work[n].imm_data = htonl((uint32_t)number("imm", 0));
		work[n].send_flags = ((m + 1) % every && m + 1 < link->messages ? 0 : IBV_SEND_SIGNALED) |
				     (number("inline", 0) ? IBV_SEND_INLINE : 0) | IBV_SEND_SOLICITED;
		if (write) {
			work[n].opcode = IBV_WR_RDMA_WRITE;
			work[n].wr.rdma.remote_addr = (uintptr_t)slot(link, 1, m);
			work[n].wr.rdma.rkey = link->mr->rkey;
		}
	}
	if (ibv_post_send(link->qp, work, &bad))
		die("a send: %s", strerror(errno));
	link->posted += many;
}

static void check(const struct link *link, long m)
{
	const uint8_t *at = slot(link, 1, m);
	for (long i = 0; i < link->bytes / 4; i++) {
		uint32_t wanted = 0, came;
		for (int r = 0; r < world; r++)
			if (strcmp(text("kind", "all_reduce"), "broadcast") || r == number("root", 0))
				wanted += ELEMENT(r, m, i);
		memcpy(&came, at + 4 * i, 4);
		if (ntohl(came) != wanted)
			die("message %ld, element %ld is %#x, not %#x", m, i, ntohl(came), wanted);
	}
	memset((uint8_t *)at, 0xee, (size_t)link->bytes);
}

/* There will be no more results: as it should be, or not. */
static void end_with(const struct link *link, const char *kind, unsigned value, const char *what)
{
	char ended[32];
	snprintf(ended, sizeof ended, "%s%u", kind, value);
	/* What is still sent to a job that has failed is refused: an adapter may see to that before it sees to the word. */
	int refused = !*kind && value == IBV_WC_REM_OP_ERR && !strncmp(text("expect", ""), "word:", 5);
	if (strcmp(text("expect", ""), ended) && !refused)
		die("after %ld results: %s (%s)", link->received, what, ended);
	printf("rank %d: ended as it should: %s\n", rank, what);
	exit(0);
}

static void take(struct link *link, const struct ibv_wc *done)
{
	if (done->status != IBV_WC_SUCCESS)
		end_with(link, "", done->status, ibv_wc_status_str(done->status));
	if (!(done->opcode & IBV_WC_RECV)) {
		/* Those before it are done, too. A WRITE that is done has its sum in place. */
		for (link->sent = (long)done->wr_id + 1; number("write", 0) && link->received < link->sent; link->received++)
			check(link, link->received);
		return;
	}
	uint32_t word = done->wc_flags & IBV_WC_WITH_IMM ? ntohl(done->imm_data) : 0;
	if (word & 1 && word & 0xfe)
		end_with(link, "word:", word >> 1 & 0x7f, "the engine's word of failure");
	if ((long)done->wr_id != link->received || (long)done->byte_len != link->bytes)
		die("result %ld in buffer %ld has %u bytes", link->received, (long)done->wr_id, done->byte_len);
	check(link, link->received++);
}

static void sum(struct link *link)
{
	long batch = number("batch", 1), receives = 0, write = number("write", 0);
	int after = !strcmp(text("receive", "before"), "after");
	batch = batch > 64 ? 64 : batch > link->depth ? link->depth : batch;
	while (link->received < link->messages || link->sent < link->messages) {
		long room = link->depth - (link->posted - (link->received < link->sent ? link->received : link->sent));
		long left = link->messages - link->posted, many = left < batch ? left : batch;
		struct ibv_wc done[16];
		/* What is not signalled is known to be done when its result is here, but takes a place until the next signal. */
		if (number("signal", 1) > 1)
			room = link->depth - (link->posted - link->received);
		for (; !write && !after && receives < link->messages && receives < link->received + link->depth; receives++)
			post_receive(link, receives);
		if (many && room >= many) {
			post_sends(link, many);
			if (after)
				pause_ms(2);
			for (; !write && after && receives < link->posted; receives++)
				post_receive(link, receives);
		}
		int n = ibv_poll_cq(link->cq, 16, done);
		if (n < 0)
			die("the completion queue has failed");
		for (int i = 0; i < n; i++)
			take(link, &done[i]);
		if (number("signal", 1) > 1 && link->received == link->messages && link->sent >= link->messages)
			break;
	}
}

static void run(struct in_addr own, const uint8_t *mac, int group)
{
	struct link link = { .depth = number("depth", 2), .messages = number("messages", 64), .bytes = number("bytes", 4096) };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	size_t offset = (size_t)number("offset", 0);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	link.stride = (size_t)link.bytes + offset;
	link.stride = link.stride ? link.stride : 4;
	size_t all = 2 * (size_t)link.depth * link.stride + offset + 4;
	link.buffer = aligned_alloc(4096, (all + 4095) / 4096 * 4096);
	memset(link.buffer, 0, all);
	link.mr = ibv_reg_mr(pd, link.buffer, all, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	link.cq = ibv_create_cq(context, (int)(4 * link.depth + number("signal", 1)), NULL, NULL, 0);
	if (number("srq", 0)) {
		struct ibv_srq_init_attr shared = { .attr = { .max_wr = (uint32_t)link.depth, .max_sge = MOST_PIECES } };
		init.srq = link.srq = ibv_create_srq(pd, &shared);
	}
	init.send_cq = init.recv_cq = link.cq;
	init.cap = (struct ibv_qp_cap){ .max_send_wr = (uint32_t)(2 * link.depth + number("signal", 1)),
					.max_recv_wr = (uint32_t)link.depth,
					.max_send_sge = MOST_PIECES,
					.max_recv_sge = MOST_PIECES,
					.max_inline_data = number("inline", 0) ? (uint32_t)link.bytes : 0 };
	if (!link.mr || !link.cq || (number("srq", 0) && !link.srq) || !(link.qp = ibv_create_qp(pd, &init)))
		die("the adapter: %s", strerror(errno));
	make_ready(link.qp);
	int json = !strcmp(text("meet", "inccl"), "json");
	struct seat seat = json ? ask_json(link.qp->qp_num, own, mac) : ask_inccl(link.qp->qp_num);
	place = seat.rank;
	pause_ms(number("late", 0));
	join_ends(link.qp, &seat);
	sum(&link);
	pause_ms(number("hold", 0));
	ibv_destroy_qp(link.qp);
	if (link.srq)
		ibv_destroy_srq(link.srq);
	ibv_destroy_cq(link.cq);
	ibv_dereg_mr(link.mr);
	ibv_dealloc_pd(pd);
	free(link.buffer);
	if (json) {
		put(speaker, "{\"leave\": {}}\n", 14);
		close(speaker);
	}
	if (*text("expect", ""))
		die("it should have ended with %s", text("expect", ""));
	printf("rank %d, group %d: %ld messages of %ld bytes right\n", rank, group, link.messages, link.bytes);
}

int main(int count, char **words)
{
	struct in_addr own;
	uint8_t mac[6];
	if (count < 5)
		die("usage: verbs_host WORLD RANK FIRST CONTROLLER [key=value ...]");
	world = atoi(words[1]);
	rank = atoi(words[2]);
	first = words[3];
	controller = words[4];
	options = words + 5;
	count_of_options = count - 5;
	if (world < 1 || world > MOST_HOSTS || rank < 0 || rank >= world)
		die("rank %d of %d", rank, world);
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_adapter(&own, mac);
	if (strcmp(text("meet", "inccl"), "json"))
		meet(own);
	for (int group = 0; group < number("groups", 1); group++)
		run(own, mac, group);
	puts("all right");
	return 0;
}
