/*
 * From a list of rules to BPF.
 *
 * The answers to all numbers (filter_rules.h) are cut into runs of equal answers, and a binary
 * search over the runs is emitted: about 7 comparisons for any call. The kernel keeps a bitmap of
 * the calls that are allowed whatever their arguments (Linux 5.11) and does not run the filter for
 * those at all, so the length of the list costs nothing.
 *
 * Jumps of BPF reach 255 instructions, so each leaf holds its own answer (a `ret`, or the check of
 * an argument) and long jumps over a subtree are unconditional ones, which reach any distance.
 */
#include "sandbox/filter.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "sandbox/filter_rules.h"
#include "sandbox/kernel.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define X32_BIT 0x40000000U
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "the numbers of system calls are known for x86-64 and arm64"
#endif

/* CLONE_NEW* of clone(2): time is none of them, its bit is part of the exit signal there. */
#define CLONE_NAMESPACES 0x7E020000U
#define UNSHARE_NAMESPACES 0x7E020080U

/* <asm/ioctls.h>, <asm-generic/ioctls.h> */
enum { IOCTL_TIOCSTI = 0x5412, IOCTL_TIOCLINUX = 0x541C, IOCTL_TIOCSETD = 0x5423 };

enum { MPTCP = 262, ICMPV6 = 58 };

/* Of a System V segment. Where memory is only watched, one that nobody has attached is not seen,
 * and there can be 4,096 of them. */
enum { SEGMENT_BYTES_MAX = 64 * 1024 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- emitting --- */

static void emit(struct filter *filter, unsigned code, unsigned value, unsigned yes, unsigned no)
{
	assert(filter->count < FILTER_CODE_MAX && yes < 256 && no < 256);
	filter->code[filter->count++] = (struct sock_filter){
		.code = (unsigned short)code,
		.jt = (unsigned char)yes,
		.jf = (unsigned char)no,
		.k = value,
	};
}

static void emit_answer(struct filter *filter, unsigned answer)
{
	emit(filter, BPF_RET | BPF_K, answer, 0, 0);
}

static void emit_error(struct filter *filter, int sys)
{
	emit_answer(filter, SECCOMP_RET_ERRNO | (unsigned)sys);
}

/* The accumulator becomes the low half of an argument. All that are checked here are 32 bits wide
 * for the kernel, which ignores the high half; both machines are little-endian. */
static void emit_load(struct filter *filter, unsigned index)
{
	emit(filter, BPF_LD | BPF_W | BPF_ABS,
	     (unsigned)offsetof(struct seccomp_data, args) + index * 8, 0, 0);
}

static void emit_load_high(struct filter *filter, unsigned index)
{
	emit(filter, BPF_LD | BPF_W | BPF_ABS,
	     (unsigned)offsetof(struct seccomp_data, args) + index * 8 + 4, 0, 0);
}

/* Refuses with `sys` when the accumulator is `value`. */
static void emit_refuse_value(struct filter *filter, unsigned value, int sys)
{
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	emit_error(filter, sys);
}

/* Allows when the accumulator is `value`. */
static void emit_allow_value(struct filter *filter, unsigned value)
{
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	emit_answer(filter, SECCOMP_RET_ALLOW);
}

/* Refuses when argument `index` has one of the bits. */
static void emit_refuse_bits(struct filter *filter, unsigned index, unsigned bits)
{
	emit_load(filter, index);
	emit(filter, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
	emit_error(filter, EPERM);
	emit_answer(filter, SECCOMP_RET_ALLOW);
}

/* open(2): the mode is one only when a file may be made. */
static void emit_open(struct filter *filter, unsigned flags)
{
	const unsigned makes = O_CREAT | (O_TMPFILE & ~(unsigned)O_DIRECTORY);

	emit_load(filter, flags);
	emit(filter, BPF_JMP | BPF_JSET | BPF_K, makes, 1, 0);
	emit_answer(filter, SECCOMP_RET_ALLOW);
	emit_refuse_bits(filter, flags + 1, S_ISUID);
}

/*
 * Options that lead into other parts of the kernel: protocols over TCP (espintcp and the like come
 * as modules), IPsec over UDP, and programs that choose packets. Levels and numbers: <linux/tcp.h>,
 * <linux/udp.h>, <asm-generic/socket.h>.
 */
static void emit_option(struct filter *filter)
{
	enum { TCP_UPPER_LAYER = 31, UDP_ENCAPSULATION = 100 };
	static const unsigned programs[] = {26, 50, 51, 52}; /* SO_ATTACH_* */

	emit_load(filter, 1);
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 4);
	emit_load(filter, 2);
	emit_refuse_value(filter, TCP_UPPER_LAYER, ENOPROTOOPT);
	emit_answer(filter, SECCOMP_RET_ALLOW);
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 4);
	emit_load(filter, 2);
	emit_refuse_value(filter, UDP_ENCAPSULATION, ENOPROTOOPT);
	emit_answer(filter, SECCOMP_RET_ALLOW);
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, SOL_SOCKET, 1, 0);
	emit_answer(filter, SECCOMP_RET_ALLOW);
	emit_load(filter, 2);
	for (size_t i = 0; i < COUNT(programs); i++)
		emit_refuse_value(filter, programs[i], ENOPROTOOPT);
	emit_answer(filter, SECCOMP_RET_ALLOW);
}

/* A size has 64 bits. EINVAL is what one above SHMMAX gets. */
static void emit_segment(struct filter *filter)
{
	emit_load_high(filter, 1);
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
	emit_error(filter, EINVAL);
	emit_load(filter, 1);
	emit(filter, BPF_JMP | BPF_JGE | BPF_K, SEGMENT_BYTES_MAX + 1, 0, 1);
	emit_error(filter, EINVAL);
	emit_answer(filter, SECCOMP_RET_ALLOW);
}

/* AF_INET and AF_INET6 with the protocols that need no module of the kernel's to be loaded. */
static void emit_internet(struct filter *filter)
{
	static const unsigned protocols[] = {0,      IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP,
					     ICMPV6, MPTCP};

	emit_load(filter, 2);
	for (size_t i = 0; i < COUNT(protocols); i++)
		emit_allow_value(filter, protocols[i]);
	emit_error(filter, EPROTONOSUPPORT);
}

static void emit_socket(struct filter *filter)
{
	/* what emit_internet() emits: a load, two for each protocol, the refusal */
	enum { INTERNET = 1 + 2 * 6 + 1 };

	emit_load(filter, 0);
	emit_allow_value(filter, AF_UNIX);
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0);
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, INTERNET);
	emit_internet(filter);
	/* netlink: only the routing family, which programs ask for the names of interfaces */
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3);
	emit_load(filter, 2);
	emit_allow_value(filter, 0);
	emit_error(filter, EAFNOSUPPORT);
}

/* Only Unix stream sockets: a datagram needs no connect() to arrive. AF_NETLINK is refused with
 * another error, since libzmq aborts on EACCES and takes this one. */
static void emit_socket_degraded(struct filter *filter)
{
	emit_load(filter, 0);
	emit_refuse_value(filter, AF_NETLINK, EOPNOTSUPP);
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0);
	emit_error(filter, EAFNOSUPPORT);
	emit_load(filter, 1);
	emit(filter, BPF_ALU | BPF_AND | BPF_K, 0xF, 0, 0);
	emit_allow_value(filter, SOCK_STREAM);
	emit_error(filter, EACCES);
}

static void emit_pair(struct filter *filter, bool degraded)
{
	emit_load(filter, 0);
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0);
	emit_error(filter, EAFNOSUPPORT);
	if (!degraded) {
		emit_answer(filter, SECCOMP_RET_ALLOW);
		return;
	}
	/* half of a datagram pair can still send to a name, and SOCK_RAW is another word for it */
	emit_load(filter, 1);
	emit(filter, BPF_ALU | BPF_AND | BPF_K, 0xF, 0, 0);
	emit_allow_value(filter, SOCK_STREAM);
	emit_allow_value(filter, SOCK_SEQPACKET);
	emit_error(filter, EACCES);
}

/* PRIO_PROCESS and IOPRIO_WHO_PROCESS, and the caller itself. */
static void emit_self_of(struct filter *filter)
{
	emit_load(filter, 0);
	emit(filter, BPF_JMP | BPF_JGE | BPF_K, 2, 0, 1);
	emit_error(filter, EPERM);
	emit_load(filter, 1);
	emit_allow_value(filter, 0);
	emit_error(filter, EPERM);
}

static void emit_thread(struct filter *filter)
{
	emit_load(filter, 0);
	emit(filter, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0);
	emit_error(filter, EPERM);
	emit_refuse_bits(filter, 0, CLONE_NAMESPACES);
}

/* The kernel looks at 32 bits, so must the filter. */
static void emit_ioctl(struct filter *filter)
{
	emit_load(filter, 1);
	emit_refuse_value(filter, IOCTL_TIOCSTI, EPERM);
	emit_refuse_value(filter, IOCTL_TIOCLINUX, EPERM);
	emit_refuse_value(filter, IOCTL_TIOCSETD, EPERM);
	emit_answer(filter, SECCOMP_RET_ALLOW);
}

static void emit_leaf(struct filter *filter, enum answer answer, bool degraded)
{
	switch (answer) {
	case YES:
		emit_answer(filter, SECCOMP_RET_ALLOW);
		break;
	case NO_PERM:
		emit_error(filter, EPERM);
		break;
	case NO_CALL:
		emit_error(filter, ENOSYS);
		break;
	case NO_ACCESS:
		emit_error(filter, EACCES);
		break;
	case ASK_CLONE:
		emit_refuse_bits(filter, 0, CLONE_NAMESPACES);
		break;
	case ASK_UNSHARE:
		emit_refuse_bits(filter, 0, UNSHARE_NAMESPACES);
		break;
	case ASK_IOCTL:
		emit_ioctl(filter);
		break;
	case ASK_KILL: /* -1 would reach whatever else is in the box */
		emit_load(filter, 0);
		emit_refuse_value(filter, (unsigned)-1, EPERM);
		emit_answer(filter, SECCOMP_RET_ALLOW);
		break;
	case ASK_PERSONALITY: /* the ordinary one, and the question which it is */
		emit_load(filter, 0);
		emit_allow_value(filter, 0);
		emit_allow_value(filter, 0xFFFFFFFFU);
		emit_error(filter, EPERM);
		break;
	case ASK_SOCKET:
		if (degraded)
			emit_socket_degraded(filter);
		else
			emit_socket(filter);
		break;
	case ASK_PAIR:
		emit_pair(filter, degraded);
		break;
	case ASK_OPTION:
		emit_option(filter);
		break;
	case ASK_SEGMENT:
		emit_segment(filter);
		break;
	case ASK_NOT_FIRST:
		emit_load(filter, 0);
		emit_refuse_value(filter, 1, EPERM);
		emit_answer(filter, SECCOMP_RET_ALLOW);
		break;
	case ASK_SELF:
		emit_load(filter, 0);
		emit_allow_value(filter, 0);
		emit_error(filter, EPERM);
		break;
	case ASK_SELF_OF:
		emit_self_of(filter);
		break;
	case ASK_MODE_1:
	case ASK_MODE_2:
		emit_refuse_bits(filter, answer == ASK_MODE_1 ? 1 : 2, S_ISUID);
		break;
	case ASK_THREAD:
		emit_thread(filter);
		break;
	case ASK_CODE_2:
		emit_refuse_bits(filter, 2, PROT_EXEC);
		break;
	case ASK_OPEN_1:
	case ASK_OPEN_2:
		emit_open(filter, answer == ASK_OPEN_1 ? 1 : 2);
		break;
	}
}

/* --- the search --- */

struct run {
	unsigned first; /* its first number; it ends where the next one begins */
	enum answer answer;
};

/* Emits the search over runs[0..count-1]; count >= 1. */
static void emit_search(struct filter *filter, const struct run *runs, size_t count, bool degraded)
{
	size_t half = count / 2;
	unsigned short over;

	if (count == 1) {
		emit_leaf(filter, runs->answer, degraded);
		return;
	}
	/* at or above the half: over the jump that leads over the lower part */
	emit(filter, BPF_JMP | BPF_JGE | BPF_K, runs[half].first, 0, 1);
	over = filter->count;
	emit(filter, BPF_JMP | BPF_JA, 0, 0, 0);
	emit_search(filter, runs, half, degraded);
	filter->code[over].k = (unsigned)(filter->count - over - 1);
	emit_search(filter, runs + half, count - half, degraded);
}

static size_t cut(struct run *runs, const enum answer answers[static NUMBERS])
{
	size_t count = 0;

	for (unsigned i = 0; i < NUMBERS; i++) {
		if (i == 0 || answers[i] != answers[i - 1])
			runs[count++] = (struct run){.first = i, .answer = answers[i]};
	}
	runs[count++] = (struct run){.first = NUMBERS, .answer = NO_CALL};
	return count;
}

void filter_compile(struct filter *filter, enum filter_kind kind)
{
	enum answer answers[NUMBERS];
	struct run runs[NUMBERS + 1];

	filter_rules(answers, kind);
	filter->count = 0;
	emit(filter, BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, arch), 0, 0);
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	emit_answer(filter, SECCOMP_RET_KILL_PROCESS);
	emit(filter, BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr), 0, 0);
#ifdef X32_BIT
	/* -1 is no x32 call: it is what a call that was to be skipped turns into */
	emit(filter, BPF_JMP | BPF_JEQ | BPF_K, 0xFFFFFFFFU, 2, 0);
	emit(filter, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	emit_answer(filter, SECCOMP_RET_KILL_PROCESS);
#endif
	emit_search(filter, runs, cut(runs, answers),
		    kind == FILTER_DEGRADED || kind == FILTER_KEEPER);
}

/* --- using --- */

int filter_memfd(const struct filter *filter)
{
	const unsigned seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	size_t size = filter->count * sizeof(*filter->code);
	int fd = memfd_create("filter", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (write(fd, filter->code, size) == (ssize_t)size && fcntl(fd, F_ADD_SEALS, seals) == 0)
		return fd;
	close(fd);
	return -1;
}

int filter_apply(const struct filter *filter)
{
	struct sock_fprog program = {
		.len = filter->count,
		.filter = (struct sock_filter *)(uintptr_t)filter->code,
	};

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

unsigned filter_answer(const struct filter *filter, unsigned arch, int number,
		       const unsigned long long args[static 6])
{
	struct seccomp_data data = {.nr = number, .arch = arch};
	unsigned accumulator = 0;

	memcpy(data.args, args, sizeof(data.args));
	for (size_t at = 0; at < filter->count; at++) {
		const struct sock_filter *code = &filter->code[at];
		bool holds = false;

		switch (code->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert(code->k <= sizeof(data) - sizeof(accumulator));
			memcpy(&accumulator, (const char *)&data + code->k, sizeof(accumulator));
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			accumulator &= code->k;
			continue;
		case BPF_RET | BPF_K:
			return code->k;
		case BPF_JMP | BPF_JA:
			at += code->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			holds = accumulator == code->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			holds = accumulator >= code->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			holds = (accumulator & code->k) != 0;
			break;
		default:
			return SECCOMP_RET_KILL_PROCESS; /* none that filter_compile() emits */
		}
		at += holds ? code->jt : code->jf;
	}
	return SECCOMP_RET_KILL_PROCESS; /* as the kernel does for what does not end in an answer */
}
