/* Sums by the engines of a weir switch (docs/inc.md), for hosts with libibverbs. Licensed as weir: MIT or Apache-2.0.
 *
 * One handle is one queue pair and one job, or as many as it has stripes. No function but weir_inc_error may be called on a handle by two threads at once.
 * Numbers are in the byte order of the host. */
#ifndef WEIR_INC_H
#define WEIR_INC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum weir_inc_type {
	WEIR_INC_I32 = 0,
	WEIR_INC_F32 = 1,
	WEIR_INC_U32 = 2,
	WEIR_INC_I64 = 3,
	WEIR_INC_F64 = 4,
	WEIR_INC_F16 = 5,
	WEIR_INC_BF16 = 6,
};

enum weir_inc_operator {
	WEIR_INC_SUM,
	WEIR_INC_MAX,
	WEIR_INC_MIN,
	WEIR_INC_PROD,
	WEIR_INC_AND,
	WEIR_INC_OR,
	WEIR_INC_XOR,
};

/* Met by a fold of a call: see weir_inc_flags. */
enum { WEIR_INC_OVERFLOW = 1, WEIR_INC_NAN = 2, WEIR_INC_INFINITE = 4 };

/* Zero means the default. */
struct weir_inc_options {
	const char *controller; /* HOST:PORT of `weir inc controller` */
	const char *token;      /* what lets this host in */
	const char *job;        /* what all hosts of the job call it */
	uint16_t hosts;         /* how many there are */
	uint16_t index;         /* which of them this is, from 0 */
	const char *device;     /* RDMA device; default: the first */
	const char *ip;         /* IPv4 address of this host; default: the first RoCEv2 address of the device */
	uint32_t mtu;           /* payload of a packet: 256, 512, 1024 (default), 2048, 4096 */
	uint32_t window;        /* packets ahead of the slowest host, a power of two; default 256 */
	uint32_t join_ms;       /* time for all hosts to come; default 60000 */
	uint32_t result_ms;     /* time without a result after which a call fails; default 10000 */
	uint8_t retry;          /* times the adapter sends again, 1 to 7; default 7 */
	uint8_t stripes;        /* jobs a vector is spread over, 1 (default) to 16: engines, and trees, work side by side */
	uint8_t write;          /* not 0: contribute by RDMA WRITE with Immediate; default: by SEND. Others may do otherwise */
	uint8_t write_results;  /* not 0: have results written to memory of this host (RDMA WRITE); default: sent. So may others */
};

struct weir_inc;

/* Joins a job: opens the device, meets the others at the controller, connects. NULL: `error` says why. */
struct weir_inc *weir_inc_join(const struct weir_inc_options *options, char *error, size_t error_size);

/* Replaces `count` elements at `data` by the fold over all hosts. All hosts call it with the same count, type and operator, in
 * the same order. 0, or -1: weir_inc_error says why, and the handle is of no further use. */
int weir_inc_allreduce(struct weir_inc *inc, void *data, size_t count, enum weir_inc_type type,
		       enum weir_inc_operator operator);

/* Returns when all hosts have called it. */
int weir_inc_barrier(struct weir_inc *inc);

/* What the folds of the last call met: a set of WEIR_INC_OVERFLOW, ... */
unsigned weir_inc_flags(const struct weir_inc *inc);

/* Ranks in every result of the last call: fewer than there are only where the job allows partial results. */
unsigned weir_inc_count(const struct weir_inc *inc);

/* The place of this host in the order of folding, and how many there are. */
uint16_t weir_inc_rank(const struct weir_inc *inc);
uint16_t weir_inc_ranks(const struct weir_inc *inc);

/* What the controller said of this host's place: one line of JSON. With several stripes, of the first. */
const char *weir_inc_seat(const struct weir_inc *inc);

/* The same of stripe `stripe`, and which elements of a vector of `count` are folded in it: `length` from `from` on. NULL: there is
 * no such stripe. */
const char *weir_inc_stripe(const struct weir_inc *inc, unsigned stripe, size_t count, size_t *from, size_t *length);

/* Why the last call failed. */
const char *weir_inc_error(const struct weir_inc *inc);

/* Leaves the job and frees everything. */
void weir_inc_leave(struct weir_inc *inc);

#ifdef __cplusplus
}
#endif
#endif
