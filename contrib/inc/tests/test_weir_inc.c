/* The library against a device and a controller that are not there. */
#define _GNU_SOURCE
#include "../weir_inc.h"
#include "fake_verbs.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(what)                                                                        \
	do {                                                                               \
		if (!(what)) {                                                             \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, name, #what); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

#define SEAT "{\"seat\": {\"id\": 9, \"rank\": 2, \"ranks\": 4, \"mac\": \"02:00:00:00:01:00\", \"ip\": \"10.0.0.200\", " \
	     "\"qpn\": 258, \"send_psn\": 16777215, \"recv_psn\": 77, \"mtu\": 1024, \"window\": 64, \"dscp\": 26, "    \
	     "\"priority\": 3, \"order\": [2, 0, 1, 3], \"tree\": [[0, 1], [2, 3]]}}\n"

static const char *name = "";

/* A controller: says `lines` to whoever connects, one connection after the other, hears what it is told. */
struct controller {
	const char *says[4];
	char heard[4][2048];
	int connections, listener;
	char address[32];
	pthread_t thread;
};

static void *control(void *argument)
{
	struct controller *c = argument;
	for (int at = 0; at < c->connections; at++) {
		int fd = accept(c->listener, NULL, NULL);
		size_t have = 0;
		ssize_t n;
		/* The first line is the question. */
		while (!memchr(c->heard[at], '\n', have) && (n = recv(fd, c->heard[at] + have, sizeof c->heard[at] - 1 - have, 0)) > 0)
			have += (size_t)n;
		if (c->says[at])
			send(fd, c->says[at], strlen(c->says[at]), MSG_NOSIGNAL);
		if (at + 1 == c->connections)
			while ((n = recv(fd, c->heard[at] + have, sizeof c->heard[at] - 1 - have, 0)) > 0)
				have += (size_t)n;
		close(fd);
	}
	return NULL;
}

static void start(struct controller *c)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof here;
	c->listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!bind(c->listener, (struct sockaddr *)&here, size) && !listen(c->listener, 4));
	getsockname(c->listener, (struct sockaddr *)&here, &size);
	snprintf(c->address, sizeof c->address, "127.0.0.1:%u", ntohs(here.sin_port));
	pthread_create(&c->thread, NULL, control, c);
}

static void stop(struct controller *c)
{
	pthread_join(c->thread, NULL);
	close(c->listener);
}

static struct weir_inc_options options(const struct controller *c)
{
	return (struct weir_inc_options){ .controller = c->address, .token = "s3\"cret", .job = "train", .hosts = 4, .index = 1,
					  .window = 64, .join_ms = 2000, .result_ms = 200 };
}

static char error[256];

static struct weir_inc *join_and(struct controller *c, const char *says)
{
	struct weir_inc_options o;
	memset(&fake, 0, sizeof fake);
	fake.ranks = 4;
	memset(c, 0, sizeof *c);
	c->connections = 1;
	c->says[0] = says;
	start(c);
	o = options(c);
	return weir_inc_join(&o, error, sizeof error);
}

/* Four ranks with the same 100001 elements. */
static void sum_of_four(struct weir_inc *inc, float *f)
{
	for (size_t i = 0; i < 100001; i++)
		f[i] = (float)i / 2;
	CHECK(!weir_inc_allreduce(inc, f, 100001, WEIR_INC_F32, WEIR_INC_SUM));
	for (size_t i = 0; i < 100001; i++)
		CHECK(f[i] == (float)i * 2);
}

static void sums(void)
{
	struct controller c;
	struct weir_inc *inc = join_and(&c, SEAT);
	static float f[100001];
	static uint32_t u[50000];
	CHECK(inc);
	CHECK(weir_inc_rank(inc) == 2 && weir_inc_ranks(inc) == 4);
	CHECK(strstr(weir_inc_seat(inc), "\"tree\": [[0, 1], [2, 3]]"));
	CHECK(fake.rtr.dest_qp_num == 258 && fake.rtr.rq_psn == 77 && fake.sq_psn == 0xffffff);
	CHECK(fake.rtr.path_mtu == IBV_MTU_1024 && fake.rtr.ah_attr.grh.traffic_class == (26 << 2 | 2));
	CHECK(!memcmp(fake.rtr.ah_attr.grh.dgid.raw + 10, "\xff\xff\x0a\x00\x00\xc8", 6));
	CHECK(fake.rtr.ah_attr.grh.sgid_index == 2);
	/* More than a window, and a rest. */
	sum_of_four(inc, f);
	CHECK(fake.n_words == 0); /* what the job was joined with needs no name */
	CHECK(weir_inc_flags(inc) == 0 && weir_inc_count(inc) == 4);
	for (uint32_t i = 0; i < 50000; i++)
		u[i] = i * 100003;
	fake.flags = WEIR_INC_OVERFLOW;
	CHECK(!weir_inc_allreduce(inc, u, 50000, WEIR_INC_U32, WEIR_INC_SUM));
	for (uint32_t i = 0; i < 50000; i++)
		CHECK(u[i] == i * 100003 * 4);
	CHECK(weir_inc_flags(inc) == WEIR_INC_OVERFLOW);
	CHECK(!weir_inc_barrier(inc) && !weir_inc_barrier(inc));
	CHECK(!weir_inc_allreduce(inc, u, 1, WEIR_INC_I32, WEIR_INC_MAX) && !weir_inc_allreduce(inc, u, 0, WEIR_INC_I32, WEIR_INC_MAX));
	/* u32 sum, barrier twice, i32 maximum: as docs/inc.md has them. */
	CHECK(fake.n_words == 4 && fake.words[0] == 0xffff1280 && fake.words[1] == 0xffff0000 && fake.words[3] == 0xffff2080);
	weir_inc_leave(inc);
	stop(&c);
	CHECK(strstr(c.heard[0], "{\"join\":{\"token\":\"s3\\\"cret\",\"job\":\"train\",\"hosts\":4,\"index\":1,\"ip\":\"10.0.0.1\",\"mac\":\"00:00:00:00:00:00\",\"qpn\":17,"));
	CHECK(strstr(c.heard[0], "\"window\":64,\"patience_ns\":100000000}}\n") && strstr(c.heard[0], "\n{\"leave\":{}}\n"));
	CHECK(fake.open == 0);
}

static void failures(void)
{
	static const struct {
		const char *says;
		uint32_t word;
	} words[] = {
		{ "the job failed: unreachable, rank 3", 3u << 16 | 1 << 1 | 1 },
		{ "the job failed: stopped", 0xffffu << 16 | 7 << 1 | 1 },
	};
	struct controller c;
	struct weir_inc *inc;
	float f[4] = { 1 };
	for (int i = 0; i < 2; i++) {
		CHECK((inc = join_and(&c, SEAT)));
		fake.fail_word = words[i].word;
		CHECK(weir_inc_allreduce(inc, f, 4, WEIR_INC_F32, WEIR_INC_SUM) == -1);
		CHECK(!strcmp(weir_inc_error(inc), words[i].says));
		/* It stays failed, for the first reason. */
		fake.fail_word = 0;
		CHECK(weir_inc_barrier(inc) == -1 && !strcmp(weir_inc_error(inc), words[i].says));
		weir_inc_leave(inc);
		stop(&c);
	}
	CHECK((inc = join_and(&c, SEAT)));
	fake.silent_from = 1;
	CHECK(weir_inc_allreduce(inc, f, 4, WEIR_INC_F32, WEIR_INC_SUM) == -1);
	CHECK(strstr(weir_inc_error(inc), "no result for 200 ms"));
	weir_inc_leave(inc);
	stop(&c);
	CHECK((inc = join_and(&c, SEAT)));
	fake.fail_send = 1;
	CHECK(weir_inc_allreduce(inc, f, 4, WEIR_INC_F32, WEIR_INC_SUM) == -1);
	CHECK(strstr(weir_inc_error(inc), "the engine does not answer"));
	weir_inc_leave(inc);
	stop(&c);
	CHECK((inc = join_and(&c, SEAT)));
	fake.short_result = 1;
	CHECK(weir_inc_allreduce(inc, f, 4, WEIR_INC_F32, WEIR_INC_SUM) == -1);
	CHECK(strstr(weir_inc_error(inc), "result 0 has 12 bytes, not 16"));
	weir_inc_leave(inc);
	stop(&c);
	CHECK((inc = join_and(&c, SEAT)));
	CHECK(weir_inc_allreduce(inc, f, 4, WEIR_INC_F32, WEIR_INC_XOR) == -1 && strstr(weir_inc_error(inc), "of integers"));
	weir_inc_leave(inc);
	stop(&c);
	/* The controller says so while a result is waited for. */
	CHECK((inc = join_and(&c, SEAT "{\"failed\": {\"why\": \"switch `leaf0` does not answer\"}}\n")));
	fake.silent_from = 1;
	CHECK(weir_inc_allreduce(inc, f, 4, WEIR_INC_F32, WEIR_INC_SUM) == -1);
	CHECK(!strcmp(weir_inc_error(inc), "switch `leaf0` does not answer"));
	weir_inc_leave(inc);
	stop(&c);
	CHECK(fake.open == 0);
}

/* A vector over several jobs, each with its own queue pair. */
static void stripes(void)
{
	struct controller c = { .connections = 3, .says = { SEAT, SEAT, SEAT } };
	struct weir_inc_options o;
	struct weir_inc *inc;
	static float f[100001];
	size_t from, length, all = 0;
	memset(&fake, 0, sizeof fake);
	fake.ranks = 4;
	start(&c);
	o = options(&c);
	o.stripes = 3;
	CHECK((inc = weir_inc_join(&o, error, sizeof error)));
	sum_of_four(inc, f);
	/* Fewer elements than stripes, another operation, and what follows it. */
	CHECK(!weir_inc_allreduce(inc, f, 2, WEIR_INC_U32, WEIR_INC_MAX) && fake.n_words == 2);
	CHECK(!weir_inc_barrier(inc) && weir_inc_count(inc) == 4);
	for (unsigned n = 0; n < 3; n++) {
		CHECK(!strcmp(weir_inc_stripe(inc, n, 100001, &from, &length), weir_inc_seat(inc)) && from == all);
		all += length;
	}
	CHECK(all == 100001 && !weir_inc_stripe(inc, 3, 1, &from, &length));
	/* One of them fails. */
	fake.fail_word = 3u << 16 | 1 << 1 | 1;
	CHECK(weir_inc_allreduce(inc, f, 9, WEIR_INC_F32, WEIR_INC_SUM) == -1);
	CHECK(!strcmp(weir_inc_error(inc), "the job failed: unreachable, rank 3"));
	weir_inc_leave(inc);
	stop(&c);
	CHECK(strstr(c.heard[0], "\"job\":\"train\",") && strstr(c.heard[1], "\"job\":\"train/1\",") && strstr(c.heard[2], "\"job\":\"train/2\","));
	CHECK(strstr(c.heard[2], "\"qpn\":19,") && fake.open == 0);
	o.stripes = 17;
	CHECK(!weir_inc_join(&o, error, sizeof error) && strstr(error, "stripes is 17; it is 1 to 16"));
}

/* Contributions by WRITE, into the memory of the seat. */
static void writes(void)
{
	static const char seat[] = "{\"seat\": {\"id\": 9, \"rank\": 2, \"ranks\": 4, \"mac\": \"02:00:00:00:01:00\", \"ip\": \"10.0.0.200\", "
				   "\"qpn\": 258, \"send_psn\": 1, \"recv_psn\": 77, \"mtu\": 1024, \"window\": 64, \"memory\": {\"addr\": "
				   "140737488355328, \"rkey\": 4294967295, \"bytes\": 65536}, \"dscp\": 26, \"priority\": 3}}\n";
	struct controller c = { .connections = 1, .says = { seat } };
	struct weir_inc_options o;
	struct weir_inc *inc;
	static float f[100001];
	memset(&fake, 0, sizeof fake);
	fake.ranks = 4;
	fake.addr = 140737488355328;
	fake.room = 65536;
	fake.rkey = 0xffffffff;
	start(&c);
	o = options(&c);
	o.write = 1;
	CHECK((inc = weir_inc_join(&o, error, sizeof error)));
	sum_of_four(inc, f);
	/* 400004 bytes in messages of 8 KiB; each says what it is. */
	CHECK(fake.writes == 49 && fake.written_word == 0xffff1180 && fake.n_words == 0);
	CHECK(!weir_inc_barrier(inc) && fake.writes == 49);
	fake.room = 1000;
	CHECK(weir_inc_allreduce(inc, f, 100001, WEIR_INC_F32, WEIR_INC_SUM) == -1);
	weir_inc_leave(inc);
	stop(&c);
	CHECK(strstr(c.heard[0], ",\"write\":true}}\n") && fake.open == 0);
	/* A controller that knows nothing of it. */
	c = (struct controller){ .connections = 1, .says = { SEAT } };
	start(&c);
	o = options(&c);
	o.write = 1;
	CHECK(!weir_inc_join(&o, error, sizeof error) && strstr(error, "a seat without memory of the engine"));
	stop(&c);
}

/* Results by WRITE, to memory that the controller was told of: vectors that end within a packet and within the memory. */
static void written_results(void)
{
	struct controller c = { .connections = 1, .says = { SEAT } };
	struct weir_inc_options o;
	struct weir_inc *inc;
	static float f[100001];
	char told[128];
	memset(&fake, 0, sizeof fake);
	fake.ranks = 4;
	start(&c);
	o = options(&c);
	o.write_results = 1;
	CHECK((inc = weir_inc_join(&o, error, sizeof error)));
	CHECK(fake.opened && fake.opened_bytes == 64 * 1024);
	for (int i = 0; i < 3; i++)
		sum_of_four(inc, f);
	/* 400004 bytes are 391 packets, so that the places a message is written to differ each time. */
	CHECK(fake.results_written == 3 * 49);
	/* What has no bytes is sent, and takes a place none the less. */
	CHECK(!weir_inc_barrier(inc) && fake.results_written == 3 * 49);
	sum_of_four(inc, f);
	CHECK(weir_inc_count(inc) == 4 && fake.results_written == 4 * 49);
	snprintf(told, sizeof told, ",\"results_to\":{\"addr\":%llu,\"rkey\":4294967294,\"bytes\":65536}}}\n",
		 (unsigned long long)fake.opened);
	fake.fail_word = 3u << 16 | 1 << 1 | 1;
	CHECK(weir_inc_barrier(inc) == -1 && !strcmp(weir_inc_error(inc), "the job failed: unreachable, rank 3"));
	weir_inc_leave(inc);
	stop(&c);
	CHECK(strstr(c.heard[0], told) && fake.open == 0);
	/* One that is not as long as its message, and one that is sent. */
	for (int i = 0; i < 2; i++) {
		c = (struct controller){ .connections = 1, .says = { SEAT } };
		start(&c);
		o = options(&c);
		o.write_results = 1;
		CHECK((inc = weir_inc_join(&o, error, sizeof error)));
		fake = (struct fake){ .ranks = 4, .open = fake.open, .short_result = !i, .send_results = i };
		CHECK(weir_inc_allreduce(inc, f, 257, WEIR_INC_F32, WEIR_INC_SUM) == -1);
		CHECK(strstr(weir_inc_error(inc), i ? "sent where it was to be written" : "result 0 has 0 bytes, not 4"));
		weir_inc_leave(inc);
		stop(&c);
	}
	CHECK(fake.open == 0);
}

/* A controller that was started anew hears who is there. */
static void comes_back(void)
{
	struct controller c = { .connections = 2, .says = { SEAT, "{\"resumed\": {}}\n{\"failed\": {\"why\": \"now\"}}\n" } };
	struct weir_inc_options o;
	struct weir_inc *inc;
	float f[4] = { 1 };
	memset(&fake, 0, sizeof fake);
	fake.ranks = 4;
	start(&c);
	o = options(&c);
	o.result_ms = 10000;
	CHECK((inc = weir_inc_join(&o, error, sizeof error)));
	fake.silent_from = 1;
	CHECK(weir_inc_allreduce(inc, f, 4, WEIR_INC_F32, WEIR_INC_SUM) == -1);
	CHECK(!strcmp(weir_inc_error(inc), "now"));
	weir_inc_leave(inc);
	stop(&c);
	CHECK(!strcmp(c.heard[1], "{\"resume\":{\"token\":\"s3\\\"cret\",\"id\":9,\"index\":1}}\n"));
}

static void refusals(void)
{
	struct controller c = { .address = "127.0.0.1:1" };
	struct weir_inc_options o = options(&c);
	memset(&fake, 0, sizeof fake);
	CHECK(!weir_inc_join(&o, error, sizeof error) && strstr(error, "controller 127.0.0.1:1: Connection refused"));
	o.index = 4;
	CHECK(!weir_inc_join(&o, error, sizeof error) && strstr(error, "index is 4 of 4 hosts"));
	o.index = 0;
	o.window = 100;
	CHECK(!weir_inc_join(&o, error, sizeof error) && strstr(error, "window is 100; it is a power of two"));
	o.window = 0;
	o.mtu = 1000;
	CHECK(!weir_inc_join(&o, error, sizeof error) && strstr(error, "mtu is 1000"));
	o.mtu = 0;
	o.ip = "10.0.0.9";
	CHECK(!weir_inc_join(&o, error, sizeof error) && strstr(error, "no RoCEv2 address 10.0.0.9"));
	o.ip = NULL;
	o.device = "mlx5_0";
	CHECK(!weir_inc_join(&o, error, sizeof error) && strstr(error, "no RDMA device mlx5_0"));
	CHECK(!join_and(&c, "{\"refused\": {\"why\": \"the token is wrong\"}}\n") && !strcmp(error, "the token is wrong"));
	stop(&c);
	CHECK(!join_and(&c, "{\"seat\": {\"id\": 1}}\n") && strstr(error, "a seat that cannot be understood"));
	stop(&c);
	CHECK(!join_and(&c, "") && strstr(error, "not all 4 hosts of job `train` came within 2000 ms"));
	stop(&c);
	CHECK(fake.open == 0);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*test)(void);
	} tests[] = { { "sums", sums }, { "failures", failures }, { "stripes", stripes }, { "writes", writes }, { "written_results", written_results }, { "comes_back", comes_back }, { "refusals", refusals } };
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
		name = tests[i].name;
		tests[i].test();
		printf("%s: ok\n", name);
	}
	return 0;
}
