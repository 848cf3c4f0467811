/* Meeting the other hosts at the controller (docs/inc.md, "Rendezvous"). */
#ifndef WEIR_INC_RENDEZVOUS_H
#define WEIR_INC_RENDEZVOUS_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

/* Longest line, its end included. */
#define LONGEST (64 * 1024)

/* Longest address of a controller, token, and name of a job, in bytes. */
#define LONGEST_TEXT 255
#define LONGEST_JOB 128

struct rendezvous {
	int fd; /* -1: not connected */
	/* For coming back. */
	char controller[LONGEST_TEXT + 1], token[LONGEST_TEXT + 1];
	uint32_t id;
	uint16_t index;
	int seated;
	uint64_t next_try_ms;
	char mac[18];
	/* What has come: the line heard last, `taken` bytes, and what follows it. */
	char *line;
	size_t have, taken;
	char *seat_text;
	char error[256];
};

struct join {
	const char *token, *job, *ip;
	uint16_t hosts, index;
	uint32_t qpn, mtu, window, patience_ms;
	/* Silence after which an engine gives this host up. */
	uint64_t engine_patience_ns;
	/* Asks for memory of the engine to write to. */
	int write;
	/* Memory of this host that results are to be written to; without bytes they are sent. */
	uint64_t results_addr, results_bytes;
	uint32_t results_rkey;
};

struct seat {
	uint32_t id, qpn, send_psn, recv_psn, mtu;
	uint16_t rank, ranks;
	uint8_t dscp, priority;
	struct in_addr ip;
	char ip_text[INET_ADDRSTRLEN];
	/* Memory of the engine, if it was asked for. */
	uint64_t addr, bytes;
	uint32_t rkey;
};

void rendezvous_init(struct rendezvous *r);

/* The MAC address of an interface, as text. */
int rendezvous_mac(unsigned ifindex, char mac[18]);

/* Says who we are and waits for a seat. -1: `error` says why. */
int rendezvous_join(struct rendezvous *r, const char *controller, const struct join *join, struct seat *seat);

/* Whether the controller has said that the job failed: -1, `error` says why. Never waits long; comes back to a
 * controller that was started anew. */
int rendezvous_look(struct rendezvous *r);

/* Says good-bye. */
void rendezvous_leave(struct rendezvous *r);

#endif
