#define _GNU_SOURCE
#include "rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Time for a connection, and between two tries to come back. */
#define CONNECT_MS 1000
#define AGAIN_MS 1000
/* Silence after which TCP asks whether the controller is there, time between such questions, in s, and how many go without an
 * answer: its machine may have lost its power, and closed nothing. */
#define QUIET_S 15
#define ASKED_AGAIN_S 5
#define QUESTIONS 3

static int fail(struct rendezvous *r, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(r->error, sizeof r->error, format, arguments);
	va_end(arguments);
	return -1;
}

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void rendezvous_init(struct rendezvous *r)
{
	r->fd = -1;
}

int rendezvous_mac(unsigned ifindex, char mac[18])
{
	struct ifreq request = { 0 };
	const unsigned char *m = (const unsigned char *)request.ifr_hwaddr.sa_data;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), bad;
	if (fd < 0)
		return -1;
	bad = !if_indextoname(ifindex, request.ifr_name) || ioctl(fd, SIOCGIFHWADDR, &request);
	close(fd);
	if (bad)
		return -1;
	snprintf(mac, 18, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
	return 0;
}

/* ---- JSON, as far as it is needed: keys of the controller's answers occur once ---- */

/* What follows `"key":` in a line. */
static const char *value_of(const char *line, const char *key)
{
	char quoted[32];
	const char *at;
	snprintf(quoted, sizeof quoted, "\"%s\"", key);
	at = strstr(line, quoted);
	if (!at)
		return NULL;
	at += strlen(quoted);
	at += strspn(at, " \t");
	if (*at++ != ':')
		return NULL;
	return at + strspn(at, " \t");
}

static int number(const char *line, const char *key, uint64_t most, uint64_t *to)
{
	const char *at = value_of(line, key);
	char *end;
	if (!at || *at < '0' || *at > '9')
		return -1;
	*to = strtoull(at, &end, 10);
	return *to > most ? -1 : 0;
}

/* A string; of escapes \" and \\ are understood, others are left as they are. */
static int text(const char *line, const char *key, char *to, size_t size)
{
	const char *at = value_of(line, key);
	size_t n = 0;
	if (!at || *at++ != '"')
		return -1;
	while (*at && *at != '"' && n + 1 < size) {
		if (*at == '\\' && (at[1] == '"' || at[1] == '\\'))
			at++;
		to[n++] = *at++;
	}
	to[n] = 0;
	return *at || n + 1 == size ? 0 : -1;
}

/* Appends a JSON string. */
static void append_text(char *line, size_t size, const char *value)
{
	size_t n = strlen(line);
	for (const char *c = value; *c && n + 8 < size; c++) {
		if (*c == '"' || *c == '\\')
			line[n++] = '\\';
		if ((unsigned char)*c < 0x20)
			n += (size_t)snprintf(line + n, size - n, "\\u%04x", *c);
		else
			line[n++] = *c;
	}
	line[n] = 0;
}

/* ---- lines over TCP ---- */

static void notice_the_dead(int fd)
{
	int on = 1, quiet = QUIET_S, again = ASKED_AGAIN_S, questions = QUESTIONS;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &quiet, sizeof quiet);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &again, sizeof again);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof questions);
}

static int dial(struct rendezvous *r, uint32_t patience_ms)
{
	char host[LONGEST_TEXT + 1];
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
	char *port;
	int error;
	snprintf(host, sizeof host, "%s", r->controller);
	port = strrchr(host, ':');
	if (!port)
		return fail(r, "controller is `%s`; it is HOST:PORT", r->controller);
	*port++ = 0;
	error = getaddrinfo(host, port, &hints, &all);
	if (error)
		return fail(r, "controller %s: %s", r->controller, gai_strerror(error));
	error = ECONNREFUSED;
	for (struct addrinfo *a = all; a && r->fd < 0; a = a->ai_next) {
		struct pollfd wait = { .events = POLLOUT };
		socklen_t size = sizeof error;
		int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			continue;
		wait.fd = fd;
		notice_the_dead(fd);
		if (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
			error = errno;
		else if (poll(&wait, 1, (int)patience_ms) != 1)
			error = ETIMEDOUT;
		else if (!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) && !error)
			r->fd = fd;
		if (r->fd < 0)
			close(fd);
	}
	freeaddrinfo(all);
	return r->fd < 0 ? fail(r, "controller %s: %s", r->controller, strerror(error)) : 0;
}

static void hang_up(struct rendezvous *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->have = r->taken = 0;
}

static int say(struct rendezvous *r, const char *line)
{
	size_t all = strlen(line), sent = 0;
	while (sent < all) {
		struct pollfd wait = { .fd = r->fd, .events = POLLOUT };
		ssize_t n = send(r->fd, line + sent, all - sent, MSG_NOSIGNAL);
		if (n > 0)
			sent += (size_t)n;
		else if (n < 0 && errno == EAGAIN && poll(&wait, 1, CONNECT_MS) == 1)
			continue;
		else
			return fail(r, "controller %s: %s", r->controller, n < 0 ? strerror(errno) : "closed");
	}
	return 0;
}

/* The next line, within so many milliseconds. 1: it is in `line`; 0: not yet; -1: the connection has ended. */
static int hear(struct rendezvous *r, uint32_t patience_ms)
{
	uint64_t until = now_ms() + patience_ms;
	r->have -= r->taken;
	memmove(r->line, r->line + r->taken, r->have);
	r->taken = 0;
	for (;;) {
		struct pollfd wait = { .fd = r->fd, .events = POLLIN };
		uint64_t now = now_ms();
		ssize_t n;
		char *end = memchr(r->line, '\n', r->have);
		if (end) {
			*end = 0;
			r->taken = (size_t)(end - r->line) + 1;
			return 1;
		}
		if (r->have == LONGEST)
			return fail(r, "controller %s: a line of more than 64 KiB", r->controller);
		n = recv(r->fd, r->line + r->have, LONGEST - r->have, 0);
		if (n > 0) {
			r->have += (size_t)n;
			continue;
		}
		if (n == 0 || errno != EAGAIN)
			return fail(r, "controller %s: the connection has ended", r->controller);
		if (now >= until || poll(&wait, 1, (int)(until - now)) == 0)
			return 0;
	}
}

static int read_seat(struct rendezvous *r, int write, struct seat *seat)
{
	const char *line = r->line;
	uint64_t id, rank, ranks, qpn, send_psn, recv_psn, mtu, dscp, priority, rkey = 0;
	if (number(line, "id", UINT32_MAX, &id) || number(line, "rank", UINT16_MAX, &rank) ||
	    number(line, "ranks", UINT16_MAX, &ranks) || number(line, "qpn", 0xffffff, &qpn) ||
	    number(line, "send_psn", 0xffffff, &send_psn) || number(line, "recv_psn", 0xffffff, &recv_psn) ||
	    number(line, "mtu", 4096, &mtu) || number(line, "dscp", 63, &dscp) || number(line, "priority", 7, &priority) ||
	    text(line, "ip", seat->ip_text, sizeof seat->ip_text) || inet_pton(AF_INET, seat->ip_text, &seat->ip) != 1)
		return fail(r, "controller %s: a seat that cannot be understood", r->controller);
	if (write && (number(line, "addr", UINT64_MAX, &seat->addr) || number(line, "rkey", UINT32_MAX, &rkey) ||
		      number(line, "bytes", UINT64_MAX, &seat->bytes)))
		return fail(r, "controller %s: a seat without memory of the engine; it knows no `write`", r->controller);
	seat->rkey = (uint32_t)rkey;
	seat->id = r->id = (uint32_t)id;
	seat->rank = (uint16_t)rank;
	seat->ranks = (uint16_t)ranks;
	seat->qpn = (uint32_t)qpn;
	seat->send_psn = (uint32_t)send_psn;
	seat->recv_psn = (uint32_t)recv_psn;
	seat->mtu = (uint32_t)mtu;
	seat->dscp = (uint8_t)dscp;
	seat->priority = (uint8_t)priority;
	free(r->seat_text);
	r->seat_text = strdup(line);
	r->seated = 1;
	return 0;
}

int rendezvous_join(struct rendezvous *r, const char *controller, const struct join *join, struct seat *seat)
{
	/* A byte of a text may become six. */
	char line[6 * (LONGEST_TEXT + LONGEST_JOB) + 1024] = "{\"join\":{\"token\":\"", rest[512], results[128] = "";
	int heard;
	snprintf(r->controller, sizeof r->controller, "%s", controller);
	snprintf(r->token, sizeof r->token, "%s", join->token);
	r->index = join->index;
	r->line = malloc(LONGEST);
	if (!r->line)
		return fail(r, "no memory");
	append_text(line, sizeof line, join->token);
	strncat(line, "\",\"job\":\"", sizeof line - strlen(line) - 1);
	append_text(line, sizeof line, join->job);
	if (join->results_bytes)
		snprintf(results, sizeof results, ",\"results_to\":{\"addr\":%llu,\"rkey\":%u,\"bytes\":%llu}",
			 (unsigned long long)join->results_addr, join->results_rkey, (unsigned long long)join->results_bytes);
	snprintf(rest, sizeof rest,
		 "\",\"hosts\":%u,\"index\":%u,\"ip\":\"%s\",\"mac\":\"%s\",\"qpn\":%u,\"operation\":{\"kind\":\"all_reduce\","
		 "\"operator\":\"sum\",\"type\":\"f32\"},\"mtu\":%u,\"window\":%u,\"patience_ns\":%llu%s%s}}\n",
		 join->hosts, join->index, join->ip, r->mac, join->qpn, join->mtu, join->window,
		 (unsigned long long)join->engine_patience_ns, join->write ? ",\"write\":true" : "", results);
	strncat(line, rest, sizeof line - strlen(line) - 1);
	/* The first packet may be lost: the kernel tries again a second later, and so on. */
	if (dial(r, join->patience_ms) || say(r, line))
		return -1;
	heard = hear(r, join->patience_ms);
	if (heard < 0)
		return -1;
	if (!heard)
		return fail(r, "not all %u hosts of job `%s` came within %u ms", join->hosts, join->job, join->patience_ms);
	if (value_of(r->line, "seat"))
		return read_seat(r, join->write, seat);
	if (text(r->line, "why", rest, sizeof rest))
		return fail(r, "controller %s: an answer that cannot be understood", r->controller);
	return fail(r, "%s", rest);
}

/* Comes back to a controller that has hung up. Failing is no failure of the job. */
static void resume(struct rendezvous *r)
{
	char line[6 * LONGEST_TEXT + 256] = "{\"resume\":{\"token\":\"", rest[64];
	if (now_ms() < r->next_try_ms)
		return;
	r->next_try_ms = now_ms() + AGAIN_MS;
	append_text(line, sizeof line, r->token);
	snprintf(rest, sizeof rest, "\",\"id\":%u,\"index\":%u}}\n", r->id, r->index);
	strncat(line, rest, sizeof line - strlen(line) - 1);
	if (dial(r, CONNECT_MS) || say(r, line))
		hang_up(r);
}

int rendezvous_look(struct rendezvous *r)
{
	char why[200];
	if (r->fd < 0)
		resume(r);
	if (r->fd < 0)
		return 0;
	switch (hear(r, 0)) {
	case 0:
		return 0;
	case 1:
		if (value_of(r->line, "resumed") || text(r->line, "why", why, sizeof why))
			return 0;
		hang_up(r);
		return fail(r, "%s", why);
	default:
		hang_up(r);
		r->next_try_ms = now_ms() + AGAIN_MS;
		return 0;
	}
}

void rendezvous_leave(struct rendezvous *r)
{
	if (r->fd < 0 && r->seated) {
		/* Whoever does not say so is waited for. */
		r->next_try_ms = 0;
		resume(r);
	}
	if (r->fd >= 0 && r->seated)
		say(r, "{\"leave\":{}}\n");
	hang_up(r);
	free(r->line);
	free(r->seat_text);
}
