#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <infiniband/verbs.h>

/* What the fake device does, and what was done to it. */
struct fake {
	unsigned ranks, flags, sends;
	int no_device, short_result;
	unsigned silent_from; /* no result from this send on */
	unsigned fail_send;   /* this send ends with an error */
	uint32_t fail_word;   /* every result is this word */
	uint32_t words[16];   /* operations named */
	unsigned n_words;
	/* Memory that may be written to, and what was. */
	uint64_t addr, room;
	uint32_t rkey;
	unsigned writes;
	uint32_t written_word; /* immediate data of the last one */
	/* Memory that was opened for WRITEs of results, and what came there. */
	int send_results; /* it is not used */
	uint64_t opened, opened_bytes;
	unsigned results_written;
	int open; /* objects that are not freed */
	struct ibv_qp_attr rtr;
	uint32_t sq_psn;
};

extern struct fake fake;

#endif
