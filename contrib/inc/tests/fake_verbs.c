/* libibverbs with one device and an engine behind each queue pair, in one process: as if FAKE_RANKS hosts sent the same. What
 * it does wrong is told by `fake`. */
#define _GNU_SOURCE
#include "fake_verbs.h"

#include <errno.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

struct fake fake = { .ranks = 4 };

#define DEPTH 8192
/* Tests have no other. */
#define MTU 1024

/* What one who opened the device has made with it. */
struct adapter {
	struct ibv_context context; /* first: found by it */
	struct ibv_pd pd;
	struct ibv_mr mr, remote; /* the second one for peers */
	struct ibv_cq cq;
	struct ibv_qp qp;
	struct ibv_recv_wr receives[DEPTH];
	struct ibv_sge receive_sges[DEPTH];
	unsigned posted, used;
	struct ibv_wc done[DEPTH];
	unsigned head, tail;
	uint32_t operation;
	uint64_t packets; /* of results */
};

static struct ibv_device device = { .name = "fake0" };
static struct adapter adapters[4];
static unsigned opened;

static struct adapter *adapter(struct ibv_context *c)
{
	return (struct adapter *)c;
}

static void complete(struct adapter *a, struct ibv_wc wc)
{
	a->done[a->tail++ % DEPTH] = wc;
}

/* The fold of `ranks` equal vectors. */
static void fold(uint32_t operation, uint8_t *data, size_t bytes)
{
	uint32_t type = operation >> 8 & 0xf, operator = operation >> 12 & 3, more = operation >> 4 & 7;
	for (size_t at = 0; at + 4 <= bytes && operator == 1 && !more; at += 4) {
		float f;
		uint32_t u;
		memcpy(&f, data + at, 4);
		memcpy(&u, data + at, 4);
		f *= (float)fake.ranks;
		u *= fake.ranks;
		memcpy(data + at, type == 1 ? (void *)&f : (void *)&u, 4);
	}
}

static int post_send(struct ibv_qp *q, struct ibv_send_wr *work, struct ibv_send_wr **bad)
{
	struct adapter *a = adapter(q->context);
	size_t bytes = work->num_sge ? work->sg_list->length : 0;
	uint32_t word = work->opcode == IBV_WR_SEND_WITH_IMM ? be32toh(work->imm_data) : 0;
	struct ibv_wc sent = { .wr_id = work->wr_id, .opcode = IBV_WC_SEND, .qp_num = q->qp_num };
	(void)bad;
	fake.sends++;
	if (fake.fail_send == fake.sends)
		sent.status = IBV_WC_RETRY_EXC_ERR;
	if (work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		uint64_t from = work->wr.rdma.remote_addr - fake.addr;
		sent.opcode = IBV_WC_RDMA_WRITE;
		if (work->wr.rdma.rkey != fake.rkey || from > fake.room || bytes > fake.room - from)
			sent.status = IBV_WC_REM_ACCESS_ERR;
		fake.writes++;
		fake.written_word = be32toh(work->imm_data);
	}
	complete(a, sent);
	if (word) {
		a->operation = word;
		fake.words[fake.n_words++ % 16] = word;
		if (word != 0xffffu << 16)
			return 0;
	}
	if (fake.silent_from && fake.sends >= fake.silent_from)
		return 0;
	if (a->used == a->posted)
		return ENOMEM; /* An engine would wait: tests post enough. */
	struct ibv_recv_wr *slot = &a->receives[a->used++ % DEPTH];
	struct ibv_wc result = {
		.wr_id = slot->wr_id, .opcode = IBV_WC_RECV, .wc_flags = IBV_WC_WITH_IMM, .qp_num = q->qp_num, .byte_len = (uint32_t)bytes,
		.imm_data = htobe32(fake.ranks << 16 | fake.flags << 8 | 1),
	};
	uint8_t summed[8 * MTU];
	if (bytes) {
		memcpy(summed, (void *)(uintptr_t)work->sg_list->addr, bytes);
		fold(a->operation, summed, bytes);
	}
	if (bytes && a->remote.length && !fake.send_results) {
		/* Packet by packet, each to the place after that of the one before. */
		for (size_t at = 0; at < bytes; at += MTU) {
			size_t place = (a->packets + at / MTU) % (a->remote.length / MTU);
			result.byte_len = (uint32_t)(bytes - at < MTU ? bytes - at : MTU);
			memcpy((uint8_t *)a->remote.addr + place * MTU, summed + at, result.byte_len);
		}
		result.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		fake.results_written++;
	} else if (bytes > (slot->num_sge ? slot->sg_list->length : 0)) {
		result.status = IBV_WC_LOC_LEN_ERR;
	} else if (bytes) {
		memcpy((void *)(uintptr_t)slot->sg_list->addr, summed, bytes);
	}
	a->packets += bytes ? (bytes + MTU - 1) / MTU : 1;
	if (fake.fail_word) {
		result.imm_data = htobe32(fake.fail_word);
		result.byte_len = 0;
	}
	if (fake.short_result)
		result.byte_len -= 4;
	complete(a, result);
	return 0;
}

static int post_recv(struct ibv_qp *q, struct ibv_recv_wr *work, struct ibv_recv_wr **bad)
{
	struct adapter *a = adapter(q->context);
	unsigned at = a->posted++ % DEPTH;
	(void)bad;
	a->receives[at] = *work;
	a->receive_sges[at] = *work->sg_list;
	a->receives[at].sg_list = &a->receive_sges[at];
	return 0;
}

static int poll_cq(struct ibv_cq *c, int n, struct ibv_wc *wc)
{
	struct adapter *a = adapter(c->context);
	int got = 0;
	while (got < n && a->head != a->tail)
		wc[got++] = a->done[a->head++ % DEPTH];
	return got;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	static struct ibv_device *list[2];
	list[0] = fake.no_device ? NULL : &device;
	*n = !fake.no_device;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct adapter *a = &adapters[opened = fake.open ? (opened + 1) % 4 : 0];
	memset(a, 0, sizeof *a);
	a->operation = 0xffff1180;
	a->context.device = d;
	a->context.ops.post_send = post_send;
	a->context.ops.post_recv = post_recv;
	a->context.ops.poll_cq = poll_cq;
	fake.open++;
	return &a->context;
}

int ibv_close_device(struct ibv_context *c)
{
	(void)c;
	fake.open--;
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	(void)c, (void)port;
	((struct ibv_port_attr *)attr)->gid_tbl_len = 3;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
		      size_t size)
{
	(void)c, (void)port, (void)flags;
	memset(entry, 0, size);
	/* IPv6, RoCEv1 and RoCEv2 of 10.0.0.1. */
	entry->gid_type = index == 1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	entry->ndev_ifindex = if_nametoindex("lo");
	if (index)
		memcpy(entry->gid.raw + 10, "\xff\xff\x0a\x00\x00\x01", 6);
	else
		memcpy(entry->gid.raw, "\xfe\x80", 2);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	adapter(c)->pd.context = c;
	fake.open++;
	return &adapter(c)->pd;
}

int ibv_dealloc_pd(struct ibv_pd *p)
{
	(void)p;
	fake.open--;
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = access & IBV_ACCESS_REMOTE_WRITE ? &adapter(p->context)->remote : &adapter(p->context)->mr;
	*mr = (struct ibv_mr){ .context = p->context, .addr = addr, .length = length, .lkey = 7, .rkey = 0xfffffffe };
	fake.open++;
	if (access & IBV_ACCESS_REMOTE_WRITE) {
		fake.opened = (uintptr_t)addr;
		fake.opened_bytes = length;
	}
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(p, addr, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *m)
{
	(void)m;
	fake.open--;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int n, void *cookie, struct ibv_comp_channel *channel, int vector)
{
	(void)n, (void)cookie, (void)channel, (void)vector;
	adapter(c)->cq.context = c;
	fake.open++;
	return &adapter(c)->cq;
}

int ibv_destroy_cq(struct ibv_cq *c)
{
	(void)c;
	fake.open--;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *init)
{
	struct ibv_qp *qp = &adapter(p->context)->qp;
	(void)init;
	qp->context = p->context;
	qp->qp_num = 17 + opened;
	fake.open++;
	return qp;
}

int ibv_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask)
{
	(void)q;
	if (mask & IBV_QP_DEST_QPN)
		fake.rtr = *attr;
	if (mask & IBV_QP_SQ_PSN)
		fake.sq_psn = attr->sq_psn;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *q)
{
	(void)q;
	fake.open--;
	return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "an error";
}
