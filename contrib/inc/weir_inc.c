#define _GNU_SOURCE
#include "weir_inc.h"
#include "rendezvous.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Packets of a message: fewer work requests than packets, several messages in a window. */
#define PACKETS 8
/* Completions between two looks at the clock and at the controller. */
#define LOOK_EVERY 1024
/* Most jobs a vector is spread over. */
#define STRIPES 16

struct weir_inc {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	/* Of the messages to be sent, and of the results. */
	struct ibv_mr *mr, *results_mr;
	struct rendezvous meeting;
	struct seat seat;
	struct weir_inc_options options;
	union ibv_gid gid;
	int gid_index;
	/* `slots` messages to be sent, then as many results. */
	uint8_t *buffer;
	size_t message;
	unsigned slots;
	/* Packets the engine has sent so far: which place of the results the next one goes to, if it is written there. */
	uint64_t packets;
	/* What messages are, as the engine knows it. */
	uint32_t operation;
	/* Work requests of sends that are not complete. */
	unsigned sending;
	unsigned flags;
	unsigned count;
	int failed;
	char error[256];
	/* The stripes after the first, which is this. */
	struct weir_inc *more[STRIPES - 1];
};

static int fail(struct weir_inc *inc, const char *format, ...)
{
	va_list arguments;
	/* The first reason is the reason. */
	if (!inc->failed) {
		va_start(arguments, format);
		vsnprintf(inc->error, sizeof inc->error, format, arguments);
		va_end(arguments);
	}
	inc->failed = 1;
	return -1;
}

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- words of immediate data (docs/inc.md) ---- */

static uint32_t operation_word(enum weir_inc_type type, enum weir_inc_operator operator)
{
	static const struct {
		uint32_t operator, more;
	} bits[] = { { 1, 0 }, { 2, 0 }, { 3, 0 }, { 1, 1 }, { 1, 2 }, { 1, 3 }, { 1, 4 } };
	uint32_t little = __BYTE_ORDER == __LITTLE_ENDIAN;
	return 0xffffu << 16 | bits[operator].operator<< 12 | (uint32_t)type << 8 | little << 7 |
	       bits[operator].more << 4;
}

#define BARRIER_WORD (0xffffu << 16)
/* What a job is joined with: the sum of little-endian f32. */
#define JOINED_WORD (0xffffu << 16 | 1u << 12 | 1u << 8 | 1u << 7)

static const char *failure_name(uint32_t word)
{
	static const char *const names[] = { "unreachable", "mismatch", "protocol", "straggler",
					     "refused",	    "aborted",	"stopped" };
	uint32_t number = word >> 1 & 0x7f;
	return number >= 1 && number <= 7 ? names[number - 1] : "unknown";
}

static size_t element_size(enum weir_inc_type type)
{
	switch (type) {
	case WEIR_INC_F16:
	case WEIR_INC_BF16:
		return 2;
	case WEIR_INC_I64:
	case WEIR_INC_F64:
		return 8;
	default:
		return 4;
	}
}

/* ---- the adapter ---- */

static int open_device(struct weir_inc *inc)
{
	int n = 0;
	const char *name = inc->options.device;
	struct ibv_device **list = ibv_get_device_list(&n);
	for (int i = 0; list && i < n && !inc->context; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			inc->context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	if (!inc->context)
		return fail(inc, "no RDMA device %s; `ibv_devices` lists them, `rdma link add rxe0 type rxe netdev eth0` makes one",
			    name ? name : "is here");
	return 0;
}

/* The entry of the GID table that is RoCEv2 over the wanted IPv4 address. */
static int find_gid(struct weir_inc *inc)
{
	struct in_addr wanted = { 0 };
	struct ibv_port_attr port;
	if (inc->options.ip && inet_pton(AF_INET, inc->options.ip, &wanted) != 1)
		return fail(inc, "ip is `%s`; it is an IPv4 address", inc->options.ip);
	if (ibv_query_port(inc->context, 1, &port))
		return fail(inc, "the port of the RDMA device: %s", strerror(errno));
	for (int i = 0; i < port.gid_tbl_len; i++) {
		struct ibv_gid_entry entry;
		static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
		if (ibv_query_gid_ex(inc->context, 1, (uint32_t)i, &entry, 0) || entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(entry.gid.raw, mapped, sizeof mapped) ||
		    (inc->options.ip && memcmp(entry.gid.raw + 12, &wanted, 4)))
			continue;
		inc->gid = entry.gid;
		inc->gid_index = i;
		return rendezvous_mac(entry.ndev_ifindex, inc->meeting.mac) ?
			       fail(inc, "the MAC address of interface %u: %s", entry.ndev_ifindex, strerror(errno)) :
			       0;
	}
	return fail(inc, "the RDMA device has no RoCEv2 address %s; give its interface one",
		    inc->options.ip ? inc->options.ip : "of IPv4");
}

static int make_queue_pair(struct weir_inc *inc)
{
	unsigned packets = inc->options.window < PACKETS * 2 ? 1 : PACKETS;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	int access = IBV_ACCESS_LOCAL_WRITE | (inc->options.write_results ? IBV_ACCESS_REMOTE_WRITE : 0);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)access };
	size_t bytes;
	inc->message = (size_t)packets * inc->options.mtu;
	inc->slots = inc->options.window / packets;
	bytes = inc->slots * inc->message;
	if (posix_memalign((void **)&inc->buffer, 4096, 2 * bytes))
		return fail(inc, "no memory for %zu bytes", 2 * bytes);
	memset(inc->buffer, 0, 2 * bytes);
	/* One send more: the word that names an operation. */
	if (!(inc->pd = ibv_alloc_pd(inc->context)) ||
	    !(inc->mr = ibv_reg_mr(inc->pd, inc->buffer, bytes, IBV_ACCESS_LOCAL_WRITE)) ||
	    !(inc->results_mr = ibv_reg_mr(inc->pd, inc->buffer + bytes, bytes, access)) ||
	    !(inc->cq = ibv_create_cq(inc->context, (int)(2 * inc->slots + 2), NULL, NULL, 0)))
		return fail(inc, "the RDMA device: %s (`ulimit -l` bounds what can be registered)", strerror(errno));
	init.send_cq = init.recv_cq = inc->cq;
	init.cap = (struct ibv_qp_cap){ .max_send_wr = inc->slots + 1, .max_recv_wr = inc->slots, .max_send_sge = 1, .max_recv_sge = 1 };
	if (!(inc->qp = ibv_create_qp(inc->pd, &init)) ||
	    ibv_modify_qp(inc->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return fail(inc, "a queue pair: %s", strerror(errno));
	return 0;
}

static int post_receive(struct weir_inc *inc, unsigned slot)
{
	uint8_t *at = inc->buffer + (inc->slots + slot) * inc->message;
	struct ibv_sge sge = { .addr = (uintptr_t)at, .length = (uint32_t)inc->message, .lkey = inc->results_mr->lkey };
	/* What has bytes is written elsewhere: then this is taken by immediate data alone. */
	struct ibv_recv_wr work = { .wr_id = slot, .sg_list = &sge, .num_sge = !inc->options.write_results }, *bad;
	int error = ibv_post_recv(inc->qp, &work, &bad);
	return error ? fail(inc, "a receive buffer: %s", strerror(error)) : 0;
}

static int post_send(struct weir_inc *inc, unsigned slot, size_t bytes, const uint32_t *word)
{
	uint8_t *at = inc->buffer + slot * inc->message;
	struct ibv_sge sge = { .addr = (uintptr_t)at, .length = (uint32_t)bytes, .lkey = inc->mr->lkey };
	struct ibv_send_wr work = { .wr_id = inc->slots,
				    .sg_list = &sge,
				    .num_sge = bytes ? 1 : 0,
				    .opcode = word ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	int error;
	if (word)
		work.imm_data = htobe32(*word);
	if (inc->options.write && bytes) {
		/* Slot by slot the memory of the engine is what the buffer is here; every WRITE says what it is. */
		work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		work.imm_data = htobe32(word ? *word : inc->operation);
		work.wr.rdma.remote_addr = inc->seat.addr + slot * inc->message;
		work.wr.rdma.rkey = inc->seat.rkey;
	}
	error = ibv_post_send(inc->qp, &work, &bad);
	if (error)
		return fail(inc, "a send: %s", strerror(error));
	inc->sending++;
	return 0;
}

static enum ibv_mtu verbs_mtu(uint32_t bytes)
{
	return bytes == 256 ? IBV_MTU_256 : bytes == 512 ? IBV_MTU_512 : bytes == 1024 ? IBV_MTU_1024 : bytes == 2048 ? IBV_MTU_2048 : IBV_MTU_4096;
}

static int connect_queue_pair(struct weir_inc *inc)
{
	const struct seat *seat = &inc->seat;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = verbs_mtu(seat->mtu),
		.dest_qp_num = seat->qpn,
		.rq_psn = seat->recv_psn,
		.max_dest_rd_atomic = 0,
		.min_rnr_timer = 12, /* 0.64 ms */
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .sl = seat->priority,
			     .grh = { .hop_limit = 64,
				      .sgid_index = (uint8_t)inc->gid_index,
				      /* ECN: capable of it. */
				      .traffic_class = (uint8_t)(seat->dscp << 2 | 2) } },
	};
	attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
	memcpy(attr.ah_attr.grh.dgid.raw + 12, &seat->ip, 4);
	if (ibv_modify_qp(inc->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return fail(inc, "the way to engine %s: %s (does it answer ARP on this network?)", seat->ip_text, strerror(errno));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = seat->send_psn,
		.timeout = 14, /* 67 ms */
		.retry_cnt = inc->options.retry,
		.rnr_retry = 7, /* without end: the engine says when */
		.max_rd_atomic = 0,
	};
	if (ibv_modify_qp(inc->qp, &attr,
			  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		return fail(inc, "a queue pair that sends: %s", strerror(errno));
	return 0;
}

/* ---- joining ---- */

static void or_default(uint32_t *value, uint32_t usual)
{
	if (!*value)
		*value = usual;
}

static int check_options(struct weir_inc *inc)
{
	struct weir_inc_options *o = &inc->options;
	or_default(&o->mtu, 1024);
	or_default(&o->window, 256);
	or_default(&o->join_ms, 60000);
	or_default(&o->result_ms, 10000);
	o->retry = o->retry ? o->retry : 7;
	o->stripes = o->stripes ? o->stripes : 1;
	if (!o->controller || !o->token || !o->job)
		return fail(inc, "controller, token and job have no default");
	if (strlen(o->controller) > LONGEST_TEXT || strlen(o->token) > LONGEST_TEXT || strlen(o->job) > LONGEST_JOB)
		return fail(inc, "controller and token have at most %d bytes, job has %d", LONGEST_TEXT, LONGEST_JOB);
	if (!o->hosts || o->index >= o->hosts)
		return fail(inc, "index is %u of %u hosts; it counts from 0", o->index, o->hosts);
	if (o->mtu < 256 || o->mtu > 4096 || (o->mtu & (o->mtu - 1)))
		return fail(inc, "mtu is %u; it is 256, 512, 1024, 2048 or 4096", o->mtu);
	if (o->window < 4 || o->window > 4096 || (o->window & (o->window - 1)))
		return fail(inc, "window is %u; it is a power of two, 4 to 4096", o->window);
	if (o->retry > 7)
		return fail(inc, "retry is %u; it is 1 to 7", o->retry);
	if (o->stripes > STRIPES)
		return fail(inc, "stripes is %u; it is 1 to %d", o->stripes, STRIPES);
	return 0;
}

static int join(struct weir_inc *inc)
{
	const struct weir_inc_options *o = &inc->options;
	char ip[INET_ADDRSTRLEN];
	if (check_options(inc) || open_device(inc) || find_gid(inc) || make_queue_pair(inc))
		return -1;
	for (unsigned slot = 0; slot < inc->slots; slot++)
		if (post_receive(inc, slot))
			return -1;
	inet_ntop(AF_INET, inc->gid.raw + 12, ip, sizeof ip);
	struct join join = {
		.token = o->token, .job = o->job, .hosts = o->hosts, .index = o->index, .ip = ip,
		.qpn = inc->qp->qp_num, .mtu = o->mtu, .window = o->window, .patience_ms = o->join_ms,
		/* So that the engine says who is missing before nothing but silence is known here. */
		.engine_patience_ns = o->result_ms * 500000ull,
		.write = o->write,
	};
	if (o->write_results) {
		join.results_addr = (uintptr_t)(inc->buffer + inc->slots * inc->message);
		join.results_rkey = inc->results_mr->rkey;
		join.results_bytes = inc->slots * inc->message;
	}
	if (rendezvous_join(&inc->meeting, o->controller, &join, &inc->seat))
		return fail(inc, "%s", inc->meeting.error);
	if (o->write && inc->seat.bytes < inc->slots * inc->message)
		return fail(inc, "the engine's memory has %llu bytes, a window has %zu", (unsigned long long)inc->seat.bytes,
			    inc->slots * inc->message);
	inc->operation = JOINED_WORD;
	return connect_queue_pair(inc);
}

/* The other stripes are jobs of their own, with the number of the stripe behind the name. */
static int join_more(struct weir_inc *inc)
{
	for (unsigned n = 1; n < inc->options.stripes; n++) {
		char job[LONGEST_JOB + 8];
		struct weir_inc_options options = inc->options;
		snprintf(job, sizeof job, "%s/%u", inc->options.job, n);
		options.job = job;
		options.stripes = 1;
		inc->more[n - 1] = weir_inc_join(&options, inc->error, sizeof inc->error);
		if (!inc->more[n - 1])
			return -1;
	}
	return 0;
}

struct weir_inc *weir_inc_join(const struct weir_inc_options *options, char *error, size_t error_size)
{
	struct weir_inc *inc = calloc(1, sizeof *inc);
	if (!inc) {
		snprintf(error, error_size, "no memory");
		return NULL;
	}
	inc->options = *options;
	rendezvous_init(&inc->meeting);
	if (!join(inc) && !join_more(inc))
		return inc;
	snprintf(error, error_size, "%s", inc->error);
	weir_inc_leave(inc);
	return NULL;
}

void weir_inc_leave(struct weir_inc *inc)
{
	if (!inc)
		return;
	for (unsigned n = 0; n < STRIPES - 1; n++)
		weir_inc_leave(inc->more[n]);
	rendezvous_leave(&inc->meeting);
	if (inc->qp)
		ibv_destroy_qp(inc->qp);
	if (inc->cq)
		ibv_destroy_cq(inc->cq);
	if (inc->results_mr)
		ibv_dereg_mr(inc->results_mr);
	if (inc->mr)
		ibv_dereg_mr(inc->mr);
	if (inc->pd)
		ibv_dealloc_pd(inc->pd);
	if (inc->context)
		ibv_close_device(inc->context);
	free(inc->buffer);
	free(inc);
}

/* ---- collectives ---- */

/* A call in progress: messages go out of `data` and results come back into it. */
struct call {
	uint8_t *data;
	size_t bytes;
	/* Messages of it, posted, results of them. */
	size_t messages, posted, results;
	/* The immediate word of each, if they have one. */
	const uint32_t *word;
	/* When a result came last, and how often none did. */
	uint64_t heard;
	unsigned polls;
};

static size_t message_bytes(const struct weir_inc *inc, const struct call *call, size_t n)
{
	size_t from = n * inc->message, left = call->bytes - from;
	return left < inc->message ? left : inc->message;
}

/* The bytes of a result: in the buffer it was sent to, or where its packets were written, place after place. */
static void copy_result(const struct weir_inc *inc, unsigned slot, uint8_t *to, size_t bytes)
{
	const uint8_t *results = inc->buffer + inc->slots * inc->message;
	size_t all = inc->slots * inc->message, from = slot * inc->message, whole = bytes;
	if (inc->options.write_results) {
		from = (size_t)(inc->packets % (all / inc->seat.mtu)) * inc->seat.mtu;
		whole = all - from < bytes ? all - from : bytes;
	}
	memcpy(to, results + from, whole);
	memcpy(to + whole, results, bytes - whole);
}

/* A result: its word, and its bytes to where its message came from. */
static int take_result(struct weir_inc *inc, struct call *call, const struct ibv_wc *done)
{
	unsigned slot = (unsigned)done->wr_id;
	size_t n = call->results, bytes = call->bytes ? message_bytes(inc, call, n) : 0;
	size_t packets = bytes ? (bytes + inc->seat.mtu - 1) / inc->seat.mtu : 1;
	/* A WRITE is one packet: the length of the last is told. */
	size_t told = inc->options.write_results && bytes ? bytes - (packets - 1) * inc->seat.mtu : bytes;
	uint32_t word = done->wc_flags & IBV_WC_WITH_IMM ? be32toh(done->imm_data) : 0;
	if ((word & 1) && (word >> 1 & 0x7f)) {
		if (word >> 16 == 0xffff)
			return fail(inc, "the job failed: %s", failure_name(word));
		return fail(inc, "the job failed: %s, rank %u", failure_name(word), word >> 16);
	}
	if (n >= call->messages || n >= call->posted)
		return fail(inc, "a result that nobody asked for");
	if (done->byte_len != told)
		return fail(inc, "result %zu has %u bytes, not %zu: do all hosts pass the same count?", n, done->byte_len, told);
	if (word & 1) {
		inc->flags |= word >> 8 & 0xff;
		if (word >> 16 < inc->count)
			inc->count = word >> 16;
	}
	copy_result(inc, slot, call->data + n * inc->message, bytes);
	inc->packets += packets;
	call->results++;
	return post_receive(inc, slot);
}

static int complete(struct weir_inc *inc, struct call *call, const struct ibv_wc *done)
{
	if (done->status != IBV_WC_SUCCESS)
		return fail(inc, "%s (%s)", ibv_wc_status_str(done->status),
			    done->status == IBV_WC_RETRY_EXC_ERR  ? "the engine does not answer" :
			    done->status == IBV_WC_REM_OP_ERR	  ? "the job has failed" :
			    done->status == IBV_WC_REM_INV_REQ_ERR ? "not what the other hosts sent" :
			    done->status == IBV_WC_LOC_LEN_ERR	   ? "a result is longer than what was sent for it, or sent where it was to be written" :
								     "the queue pair has failed");
	if (done->opcode & IBV_WC_RECV)
		return take_result(inc, call, done);
	inc->sending--;
	return 0;
}

/* Begins a call. `operation`: what its messages are. */
static int begin(struct weir_inc *inc, struct call *call, uint32_t operation)
{
	if (inc->failed)
		return -1;
	inc->flags = 0;
	inc->count = inc->seat.ranks;
	call->heard = now_ms();
	if (!call->messages)
		return 0;
	/* A word alone names the operation of what follows. */
	if (!call->word && operation != inc->operation && post_send(inc, 0, 0, &operation))
		return -1;
	inc->operation = operation;
	return 0;
}

/* Sends messages of a call as far ahead of the results as the window allows, and takes results that have come. */
static int turn(struct weir_inc *inc, struct call *call)
{
	struct ibv_wc done[16];
	int n;
	while (call->posted < call->messages && call->posted - call->results < inc->slots && inc->sending < inc->slots) {
		unsigned slot = (unsigned)(call->posted % inc->slots);
		size_t bytes = call->bytes ? message_bytes(inc, call, call->posted) : 0;
		memcpy(inc->buffer + slot * inc->message, call->data + call->posted * inc->message, bytes);
		if (post_send(inc, slot, bytes, call->word))
			return -1;
		call->posted++;
	}
	n = ibv_poll_cq(inc->cq, 16, done);
	if (n < 0)
		return fail(inc, "the completion queue has failed");
	for (int i = 0; i < n; i++) {
		if (complete(inc, call, &done[i]))
			return -1;
		if (done[i].opcode & IBV_WC_RECV)
			call->heard = now_ms();
	}
	if (n || ++call->polls % LOOK_EVERY)
		return 0;
	if (rendezvous_look(&inc->meeting))
		return fail(inc, "%s", inc->meeting.error);
	if (now_ms() - call->heard > inc->options.result_ms)
		return fail(inc, "no result for %u ms: a host has not called, or an engine is gone", inc->options.result_ms);
	return 0;
}

static struct weir_inc *stripe_of(const struct weir_inc *inc, unsigned stripe)
{
	return stripe ? inc->more[stripe - 1] : (struct weir_inc *)inc;
}

/* The share of a stripe in `count` elements: what is left over goes to the first ones. */
static size_t share(const struct weir_inc *inc, unsigned stripe, size_t count, size_t *from)
{
	size_t each = count / inc->options.stripes, over = count % inc->options.stripes;
	*from = stripe * each + (stripe < over ? stripe : over);
	return each + (stripe < over);
}

/* Runs the calls of all stripes, until each has all its results. */
static int run(struct weir_inc *inc, struct call *calls, uint32_t operation)
{
	unsigned stripes = inc->options.stripes, left = stripes;
	for (unsigned n = 0; n < stripes; n++)
		if (begin(stripe_of(inc, n), &calls[n], operation))
			return fail(inc, "%s", stripe_of(inc, n)->error);
	while (left) {
		left = 0;
		for (unsigned n = 0; n < stripes; n++) {
			struct weir_inc *stripe = stripe_of(inc, n);
			if (calls[n].results == calls[n].messages)
				continue;
			if (turn(stripe, &calls[n]))
				return fail(inc, "%s", stripe->error);
			left++;
		}
	}
	for (unsigned n = 1; n < stripes; n++) {
		struct weir_inc *stripe = stripe_of(inc, n);
		inc->flags |= stripe->flags;
		inc->count = stripe->count < inc->count ? stripe->count : inc->count;
	}
	return 0;
}

int weir_inc_allreduce(struct weir_inc *inc, void *data, size_t count, enum weir_inc_type type,
		       enum weir_inc_operator operator)
{
	struct call calls[STRIPES] = { 0 };
	if ((unsigned)type > WEIR_INC_BF16 || (unsigned)operator> WEIR_INC_XOR)
		return fail(inc, "no such type or operator");
	if (operator>= WEIR_INC_AND && type != WEIR_INC_I32 && type != WEIR_INC_U32 && type != WEIR_INC_I64)
		return fail(inc, "and, or, xor are of integers");
	if (!count)
		return inc->failed ? -1 : 0;
	for (unsigned n = 0; n < inc->options.stripes; n++) {
		size_t from, length = share(inc, n, count, &from);
		calls[n].data = (uint8_t *)data + from * element_size(type);
		calls[n].bytes = length * element_size(type);
		calls[n].messages = (calls[n].bytes + inc->message - 1) / inc->message;
	}
	return run(inc, calls, operation_word(type, operator));
}

int weir_inc_barrier(struct weir_inc *inc)
{
	static uint8_t nothing;
	static const uint32_t word = BARRIER_WORD;
	/* Calls have ended when they return, so that one stripe is enough. */
	struct call calls[STRIPES] = { { .data = &nothing, .messages = 1, .word = &word } };
	return run(inc, calls, word);
}

const char *weir_inc_stripe(const struct weir_inc *inc, unsigned stripe, size_t count, size_t *from, size_t *length)
{
	if (stripe >= inc->options.stripes)
		return NULL;
	*length = share(inc, stripe, count, from);
	return stripe_of(inc, stripe)->meeting.seat_text;
}

unsigned weir_inc_flags(const struct weir_inc *inc)
{
	return inc->flags;
}

unsigned weir_inc_count(const struct weir_inc *inc)
{
	return inc->count;
}

uint16_t weir_inc_rank(const struct weir_inc *inc)
{
	return inc->seat.rank;
}

uint16_t weir_inc_ranks(const struct weir_inc *inc)
{
	return inc->seat.ranks;
}

const char *weir_inc_seat(const struct weir_inc *inc)
{
	return inc->meeting.seat_text;
}

const char *weir_inc_error(const struct weir_inc *inc)
{
	return inc->error;
}
