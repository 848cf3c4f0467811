/* What C hides from other languages: macros, thread-local variables, bit flags, and the differences
 * between DPDK versions. Every function is static inline; the build makes out-of-line copies. */
#ifndef WEIR_SHIM_H
#define WEIR_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef ALLOW_EXPERIMENTAL_API
#define ALLOW_EXPERIMENTAL_API 1
#endif

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_version.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_pdump.h>
#include <rte_ring.h>
#include <rte_telemetry.h>

/* Where the fields of a frame's mbuf are. The paths to them moved into unions in 24.07; the offsets
 * never did. */
enum weir_mbuf_offset {
	WEIR_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	WEIR_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	WEIR_MBUF_REFCNT = offsetof(struct rte_mbuf, refcnt),
	WEIR_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	WEIR_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags),
	WEIR_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	/* For the application to use, 32 bits; drivers do not read it. */
	WEIR_MBUF_USER = offsetof(struct rte_mbuf, hash.usr),
	WEIR_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	WEIR_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
	WEIR_MBUF_POOL = offsetof(struct rte_mbuf, pool),
};

/* Sizes fixed at DPDK's build. */
enum weir_limit {
	WEIR_HEADROOM = RTE_PKTMBUF_HEADROOM,
	WEIR_MBUF_SIZE = sizeof(struct rte_mbuf),
	WEIR_MAX_LCORE = RTE_MAX_LCORE,
	WEIR_MEMPOOL_CACHE_MAX = RTE_MEMPOOL_CACHE_MAX_SIZE,
	WEIR_MEMPOOL_NAME_MAX = RTE_MEMPOOL_NAMESIZE - 1,
	WEIR_MAX_PORTS = RTE_MAX_ETHPORTS,
	WEIR_RING_NAME_MAX = RTE_RING_NAMESIZE - 1,
	WEIR_PORT_NAME_MAX = RTE_ETH_NAME_MAX_LEN,
	WEIR_VERSION = RTE_VERSION,
	WEIR_VERSION_25_11 = RTE_VERSION_NUM(25, 11, 0, 0),
};

/* Bits of an mbuf's ol_flags: its bytes belong to another mbuf. */
enum weir_mbuf_flag {
	WEIR_MBUF_INDIRECT = RTE_MBUF_F_INDIRECT,
};

static inline int weir_errno(void)
{
	return rte_errno;
}

/* CPUs an lcore may run on, as a bitmap of `words` 64-bit words. 0, or -1 for an unknown lcore. */
static inline int weir_lcore_cpus(unsigned int lcore, uint64_t *map, unsigned int words)
{
	if (lcore >= RTE_MAX_LCORE)
		return -1;
	rte_cpuset_t set = rte_lcore_cpuset(lcore);
	memset(map, 0, words * sizeof(*map));
	for (unsigned int cpu = 0; cpu < words * 64 && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			map[cpu / 64] |= UINT64_C(1) << (cpu % 64);
	return 0;
}

/* The log's way to standard error. What would have to wait for a reader is lost: the caller may be the thread that
 * serves interrupts, or one that forwards. What is ready takes PIPE_BUF bytes without waiting. */
static inline ssize_t weir_log_write(void *unused, const char *text, size_t len)
{
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
	(void)unused;
	for (size_t at = 0; at < len;) {
		if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
			break;
		ssize_t n = write(STDERR_FILENO, text + at, RTE_MIN(len - at, (size_t)PIPE_BUF));
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	return (ssize_t)len;
}

/* DPDK on Linux writes its log to stdout; programs own that. */
static inline int weir_log_to_stderr(void)
{
	FILE *log = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = weir_log_write });
	return rte_openlog_stream(log != NULL ? log : stderr);
}

/* One more handle to every segment. 0, or -1 if a reference count is exhausted. */
static inline int weir_mbuf_share(struct rte_mbuf *m)
{
	for (struct rte_mbuf *s = m; s != NULL; s = s->next)
		if (rte_mbuf_refcnt_read(s) == UINT16_MAX)
			return -1;
	rte_pktmbuf_refcnt_update(m, 1);
	return 0;
}

static inline struct rte_ring *weir_ring_create_spsc(const char *name, unsigned int count)
{
	return rte_ring_create(name, count, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

static inline unsigned int weir_ring_dequeue_mbufs(struct rte_ring *r, struct rte_mbuf **m, unsigned int n)
{
	return rte_ring_dequeue_burst(r, (void **)m, n, NULL);
}

/* last_first: DPDK's handler for frames that are reused last in, first out, if it was built with it. On that node, or
 * where there is memory. */
static inline struct rte_mempool *weir_pool_create(const char *name, unsigned int count, unsigned int cache,
						   uint16_t data_bytes, bool last_first, int socket)
{
	const uint16_t room = data_bytes + RTE_PKTMBUF_HEADROOM;
	struct rte_mempool *pool = NULL;

	if (last_first)
		pool = rte_pktmbuf_pool_create_by_ops(name, count, cache, 0, room, socket, "stack");
	if (pool == NULL && (!last_first || rte_errno == EINVAL))
		pool = rte_pktmbuf_pool_create(name, count, cache, 0, room, socket);
	if (pool == NULL && rte_errno == ENOMEM && socket != SOCKET_ID_ANY)
		pool = weir_pool_create(name, count, cache, data_bytes, last_first, SOCKET_ID_ANY);
	return pool;
}

/* Bytes one element of such a pool takes, its header and padding included. */
static inline uint32_t weir_pool_element_bytes(uint16_t data_bytes)
{
	uint32_t element = sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM + data_bytes;

	return rte_mempool_calc_obj_size(element, 0, NULL);
}

/* Elements the pool was made with. */
static inline unsigned int weir_pool_size(const struct rte_mempool *p)
{
	return p->size;
}

/* Ports of the device with these devargs, at most max of them. */
static inline unsigned int weir_eth_ports_of(const char *devargs, uint16_t *ports, unsigned int max)
{
	struct rte_dev_iterator it;
	unsigned int n = 0;
	uint16_t id;

	RTE_ETH_FOREACH_MATCHING_DEV(id, devargs, &it) {
		if (n == max) {
			rte_eth_iterator_cleanup(&it);
			break;
		}
		ports[n++] = id;
	}
	return n;
}

static inline int weir_eth_probe(const char *devargs)
{
	return rte_dev_probe(devargs);
}

/* What EAL or a probe handed to the driver when the device came up, without the device's name; NULL: not known. */
static inline const char *weir_eth_devargs(uint16_t port)
{
	struct rte_eth_dev_info info;
	const struct rte_devargs *devargs;

	if (rte_eth_dev_info_get(port, &info) != 0 || info.device == NULL)
		return NULL;
	devargs = rte_dev_devargs(info.device);
	return devargs == NULL ? NULL : devargs->args;
}

/* The device behind a port; a closed port no longer knows it. NULL if the driver does not say. */
static inline struct rte_device *weir_eth_device(uint16_t port)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(port, &info) != 0)
		return NULL;
	return (struct rte_device *)(uintptr_t)info.device;
}

static inline int weir_device_remove(struct rte_device *device)
{
	return rte_dev_remove(device);
}

/* Ports whose device is being taken away, as the driver, the bus or the kernel said in the interrupt thread. */
static uint8_t removed_ports[RTE_MAX_ETHPORTS];

static int port_was_removed(uint16_t port, enum rte_eth_event_type event, void *with, void *out)
{
	RTE_SET_USED(event);
	RTE_SET_USED(with);
	RTE_SET_USED(out);
	__atomic_store_n(&removed_ports[port], 1, __ATOMIC_RELAXED);
	return 0;
}

static void device_was_removed(const char *name, enum rte_dev_event_type event, void *with)
{
	RTE_SET_USED(name);
	if (event == RTE_DEV_EVENT_REMOVE)
		__atomic_store_n(&removed_ports[(uintptr_t)with], 1, __ATOMIC_RELAXED);
}

/* From now on it is noted when the port's device is being taken away. */
static inline void weir_eth_watch_removal(uint16_t port)
{
	struct rte_device *device = weir_eth_device(port);

	__atomic_store_n(&removed_ports[port], 0, __ATOMIC_RELAXED);
	rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_RMV, port_was_removed, NULL);
	if (device != NULL)
		rte_dev_event_callback_register(rte_dev_name(device), device_was_removed, (void *)(uintptr_t)port);
}

static inline void weir_eth_unwatch_removal(uint16_t port, const struct rte_device *device)
{
	rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_RMV, port_was_removed, NULL);
	if (device != NULL)
		rte_dev_event_callback_unregister(rte_dev_name(device), device_was_removed,
						  (void *)(uintptr_t)port);
}

static inline bool weir_eth_is_removed(uint16_t port)
{
	return __atomic_load_n(&removed_ports[port], __ATOMIC_RELAXED);
}

/* Hears from the kernel of devices that come and go, and keeps accesses to the registers of one that has gone
 * from ending the process. 0 or negative errno. */
static inline int weir_watch_devices(void)
{
	int ret = rte_dev_event_monitor_start();

	return ret != 0 ? ret : rte_dev_hotplug_handle_enable();
}

/* Memory node of a port's device; SOCKET_ID_ANY (-1) where there is none. */
static inline int weir_eth_socket(uint16_t port)
{
	return rte_eth_dev_socket_id(port);
}

/* The part of rte_eth_dev_info that is asked for, in one shape for all versions. */
struct weir_eth_info {
	char driver[64];
	uint32_t max_rx_bytes;
	uint16_t min_mtu;
	uint16_t max_mtu;
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	uint16_t rx_desc_min;
	uint16_t rx_desc_max;
	uint16_t rx_desc_align;
	uint16_t tx_desc_min;
	uint16_t tx_desc_max;
	uint16_t tx_desc_align;
	/* Booleans. */
	uint8_t tx_ipv4_checksum;
	uint8_t tx_udp_checksum;
	uint8_t rx_timestamp;
	uint8_t rss;
};

static inline int weir_eth_info_get(uint16_t port, struct weir_eth_info *out)
{
	struct rte_eth_dev_info info;
	int ret = rte_eth_dev_info_get(port, &info);

	memset(out, 0, sizeof(*out));
	if (ret != 0)
		return ret;
	if (info.driver_name != NULL)
		snprintf(out->driver, sizeof(out->driver), "%s", info.driver_name);
	out->max_rx_bytes = info.max_rx_pktlen;
	out->min_mtu = info.min_mtu;
	out->max_mtu = info.max_mtu;
	out->max_rx_queues = info.max_rx_queues;
	out->max_tx_queues = info.max_tx_queues;
	out->rx_desc_min = info.rx_desc_lim.nb_min;
	out->rx_desc_max = info.rx_desc_lim.nb_max;
	out->rx_desc_align = info.rx_desc_lim.nb_align;
	out->tx_desc_min = info.tx_desc_lim.nb_min;
	out->tx_desc_max = info.tx_desc_lim.nb_max;
	out->tx_desc_align = info.tx_desc_lim.nb_align;
	out->tx_ipv4_checksum = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0;
	out->tx_udp_checksum = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) != 0;
	out->rx_timestamp = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0;
	out->rss = info.flow_type_rss_offloads != 0;
	return 0;
}

/* No offload is asked for: no scattered RX, no fast free (frames may be shared). More than one RX
 * queue spreads by RSS where the driver has it. mtu 0 keeps the driver's own. */
static inline int weir_eth_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, uint16_t mtu)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int ret = rte_eth_dev_info_get(port, &info);

	if (ret != 0)
		return ret;
	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = mtu;
	if (rx_queues > 1 && info.flow_type_rss_offloads != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
	}
	return rte_eth_dev_configure(port, rx_queues, tx_queues, &conf);
}

/* Queues are on the device's node, or where there is memory. */
static inline int weir_eth_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, struct rte_mempool *p)
{
	int ret = rte_eth_rx_queue_setup(port, queue, descriptors, weir_eth_socket(port), NULL, p);

	if (ret == -ENOMEM)
		ret = rte_eth_rx_queue_setup(port, queue, descriptors, SOCKET_ID_ANY, NULL, p);
	return ret;
}

/* The started queue may receive a frame in several segments, as far as the driver tells. */
static inline bool weir_eth_rx_chains(uint16_t port, uint16_t queue)
{
	struct rte_eth_rxq_info info;

	return rte_eth_rx_queue_info_get(port, queue, &info) == 0 && info.scattered_rx != 0;
}

static inline int weir_eth_tx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors)
{
	int ret = rte_eth_tx_queue_setup(port, queue, descriptors, weir_eth_socket(port), NULL);

	if (ret == -ENOMEM)
		ret = rte_eth_tx_queue_setup(port, queue, descriptors, SOCKET_ID_ANY, NULL);
	return ret;
}

static inline int weir_eth_adjust_descriptors(uint16_t port, uint16_t *rx, uint16_t *tx)
{
	return rte_eth_dev_adjust_nb_rx_tx_desc(port, rx, tx);
}

static inline int weir_eth_mac(uint16_t port, uint8_t mac[6])
{
	struct rte_ether_addr addr;
	int ret = rte_eth_macaddr_get(port, &addr);

	if (ret == 0)
		memcpy(mac, addr.addr_bytes, 6);
	return ret;
}

struct weir_eth_link {
	/* Mbit/s; UINT32_MAX where the driver does not know. */
	uint32_t mbps;
	uint8_t up;
	uint8_t full_duplex;
};

static inline int weir_eth_link(uint16_t port, struct weir_eth_link *out)
{
	struct rte_eth_link link;
	int ret;

	memset(&link, 0, sizeof(link));
	ret = rte_eth_link_get_nowait(port, &link);
	out->mbps = link.link_speed;
	out->up = link.link_status == RTE_ETH_LINK_UP;
	out->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	return ret;
}

struct weir_eth_stats {
	uint64_t rx_frames;
	uint64_t tx_frames;
	uint64_t rx_bytes;
	uint64_t tx_bytes;
	uint64_t rx_missed;
	uint64_t rx_errors;
	uint64_t tx_errors;
	uint64_t rx_no_mbuf;
};

static inline int weir_eth_stats(uint16_t port, struct weir_eth_stats *out)
{
	struct rte_eth_stats s;
	int ret;

	memset(&s, 0, sizeof(s));
	ret = rte_eth_stats_get(port, &s);
	out->rx_frames = s.ipackets;
	out->tx_frames = s.opackets;
	out->rx_bytes = s.ibytes;
	out->tx_bytes = s.obytes;
	out->rx_missed = s.imissed;
	out->rx_errors = s.ierrors;
	out->tx_errors = s.oerrors;
	out->rx_no_mbuf = s.rx_nombuf;
	return ret;
}

/* Leaves flow control to software: the MAC hands 802.3x and PFC frames over, and neither sends nor obeys any
 * by itself. Drivers that do not let go of how the link is negotiated keep that. 0: the driver took it;
 * negative errno otherwise. */
static inline int weir_eth_software_flow_control(uint16_t port)
{
	struct rte_eth_fc_conf fc;
	uint8_t negotiated;
	int ret;

	memset(&fc, 0, sizeof(fc));
	ret = rte_eth_dev_flow_ctrl_get(port, &fc);
	if (ret != 0)
		return ret;
	negotiated = fc.autoneg;
	fc.mode = RTE_ETH_FC_NONE;
	fc.mac_ctrl_frame_fwd = 1;
	fc.autoneg = 0;
	ret = rte_eth_dev_flow_ctrl_set(port, &fc);
	if (ret != 0 && negotiated) {
		fc.autoneg = negotiated;
		ret = rte_eth_dev_flow_ctrl_set(port, &fc);
	}
	return ret;
}

/* Link-level flow control settings can be read. */
static inline int weir_eth_flow_control_get(uint16_t port)
{
	struct rte_eth_fc_conf fc;

	memset(&fc, 0, sizeof(fc));
	return rte_eth_dev_flow_ctrl_get(port, &fc);
}

/* Calls back in the interrupt thread when fd can be read, from now on. 0 or negative errno. */
static inline int weir_interrupt_register(int fd, rte_intr_callback_fn call, void *with)
{
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	int ret;

	if (handle == NULL)
		return -ENOMEM;
	if (rte_intr_fd_set(handle, fd) != 0 || rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) != 0)
		ret = -EINVAL;
	else
		ret = rte_intr_callback_register(handle, call, with);
	/* What is registered is a copy. */
	rte_intr_instance_free(handle);
	return ret;
}

/* A number under a name in a telemetry dictionary: renamed in 23.03, the old name went in 25.11. */
static inline int weir_tel_dict_uint(struct rte_tel_data *data, const char *name, uint64_t value)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_add_dict_uint(data, name, value);
#else
	return rte_tel_data_add_dict_u64(data, name, value);
#endif
}

#endif
