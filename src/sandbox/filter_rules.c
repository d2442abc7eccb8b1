/*
 * The list as data: a rule for each call that is not simply allowed, and those of the degraded tier
 * laid over them. Numbers that the headers of Debian 12 lack are written out.
 */
#include "sandbox/filter_rules.h"

#include <assert.h>
#include <string.h>

#include "sandbox/kernel.h"

struct rule {
	int number;
	enum answer answer;
};

static const struct rule RULES[] = {
	/* namespaces and mounts */
	{SYS_clone, ASK_CLONE},
	{SYS_clone3, NO_CALL},
	{SYS_unshare, ASK_UNSHARE},
	{SYS_setns, NO_PERM},
	{SYS_mount, NO_PERM},
	{SYS_umount2, NO_PERM},
	{SYS_pivot_root, NO_PERM},
	{SYS_chroot, NO_PERM},
	{428, NO_CALL}, /* open_tree */
	{429, NO_CALL}, /* move_mount */
	{430, NO_CALL}, /* fsopen */
	{431, NO_CALL}, /* fsconfig */
	{432, NO_CALL}, /* fsmount */
	{433, NO_CALL}, /* fspick */
	{442, NO_CALL}, /* mount_setattr */
	{457, NO_CALL}, /* statmount */
	{458, NO_CALL}, /* listmount */
	{467, NO_CALL}, /* open_tree_attr */
	{470, NO_CALL}, /* listns */
	/* operations that no filter sees */
	{425, NO_CALL}, /* io_uring_setup */
	{426, NO_CALL}, /* io_uring_enter */
	{427, NO_CALL}, /* io_uring_register */
	/* counted for the whole machine, which has 65,536 of them */
	{SYS_io_setup, NO_CALL},
	/* sockets */
	{SYS_socket, ASK_SOCKET},
	{SYS_socketpair, ASK_PAIR},
	{SYS_setsockopt, ASK_OPTION},
	{SYS_shmget, ASK_SEGMENT},
	/* files that are run as their owner: inside it means nothing, outside it does */
	{SYS_fchmod, ASK_MODE_1},
	{SYS_fchmodat, ASK_MODE_2},
	{452, ASK_MODE_2}, /* fchmodat2 */
	{SYS_mknodat, ASK_MODE_2},
	{SYS_openat, ASK_OPEN_2},
	{437, NO_CALL}, /* openat2: its mode lies behind a pointer */
#if defined(__x86_64__)
	{SYS_chmod, ASK_MODE_1},
	{SYS_creat, ASK_MODE_1},
	{SYS_mknod, ASK_MODE_1},
	{SYS_open, ASK_OPEN_1},
#endif
	/* attack surface without use */
	{SYS_userfaultfd, NO_PERM},
	{SYS_bpf, NO_PERM},
	{SYS_perf_event_open, NO_PERM},
	{SYS_add_key, NO_PERM},
	{SYS_request_key, NO_PERM},
	{SYS_keyctl, NO_PERM},
	{SYS_vmsplice, NO_PERM},
	{SYS_move_pages, NO_PERM},
	{SYS_migrate_pages, NO_PERM},
	{SYS_personality, ASK_PERSONALITY},
	{SYS_ioctl, ASK_IOCTL},
	{SYS_name_to_handle_at, NO_PERM},
	{SYS_open_by_handle_at, NO_PERM},
	{SYS_fanotify_init, NO_PERM},
	{SYS_fanotify_mark, NO_PERM},
	{447, NO_CALL}, /* memfd_secret: while one is in use the machine cannot hibernate */
	{451, NO_CALL}, /* cachestat: tells what others have read */
	{SYS_lookup_dcookie, NO_PERM},
	{SYS_nfsservctl, NO_PERM},
	/* other processes */
	{SYS_ptrace, NO_PERM},
	{SYS_process_vm_readv, NO_PERM},
	{SYS_process_vm_writev, NO_PERM},
	{SYS_kcmp, NO_PERM},
	{438, NO_PERM}, /* pidfd_getfd */
	{440, NO_PERM}, /* process_madvise */
	{448, NO_PERM}, /* process_mrelease */
	{SYS_kill, ASK_KILL},
	{SYS_prlimit64, ASK_NOT_FIRST}, /* PID 1 has the same uid */
	/* the machine */
	{SYS_kexec_load, NO_PERM},
	{SYS_kexec_file_load, NO_PERM},
	{SYS_init_module, NO_PERM},
	{SYS_finit_module, NO_PERM},
	{SYS_delete_module, NO_PERM},
	{SYS_reboot, NO_PERM},
	{SYS_swapon, NO_PERM},
	{SYS_swapoff, NO_PERM},
	{SYS_acct, NO_PERM},
	{SYS_syslog, NO_PERM},
	{SYS_quotactl, NO_PERM},
	{443, NO_PERM}, /* quotactl_fd */
	{SYS_settimeofday, NO_PERM},
	{SYS_clock_settime, NO_PERM},
	{SYS_clock_adjtime, NO_PERM},
	{SYS_adjtimex, NO_PERM},
	{SYS_sethostname, NO_PERM},
	{SYS_setdomainname, NO_PERM},
	{SYS_vhangup, NO_PERM},
#if defined(__x86_64__)
	{SYS_iopl, NO_PERM},
	{SYS_ioperm, NO_PERM},
	{SYS_modify_ldt, NO_PERM},
	{SYS_uselib, NO_PERM},
	{SYS_ustat, NO_PERM},
	{SYS_sysfs, NO_PERM},
	{SYS__sysctl, NO_PERM},
	{SYS_create_module, NO_PERM},
	{SYS_query_module, NO_PERM},
	{SYS_get_kernel_syms, NO_PERM},
#endif
};

/* What has no namespace of its own to end in is not to be made or reached, and of what Landlock
 * does not know nothing is to be done to the user's processes and files. */
static const struct rule RULES_DEGRADED[] = {
	{SYS_connect, NO_ACCESS},
	/* System V objects can be had by number, without a key */
	{SYS_shmget, NO_PERM},
	{SYS_shmat, NO_PERM},
	{SYS_shmctl, NO_PERM},
	{SYS_semget, NO_PERM},
	{SYS_semop, NO_PERM},
	{SYS_semtimedop, NO_PERM},
	{SYS_semctl, NO_PERM},
	{SYS_msgget, NO_PERM},
	{SYS_msgsnd, NO_PERM},
	{SYS_msgrcv, NO_PERM},
	{SYS_msgctl, NO_PERM},
	{SYS_mq_open, NO_PERM},
	{SYS_mq_unlink, NO_PERM},
	/* other processes of the user: a limit of 0 s of processor time kills */
	{SYS_prlimit64, ASK_SELF},
	{SYS_sched_setaffinity, ASK_SELF},
	{SYS_sched_setscheduler, ASK_SELF},
	{SYS_sched_setparam, ASK_SELF},
	{SYS_sched_setattr, ASK_SELF},
	{SYS_setpriority, ASK_SELF_OF},
	{SYS_ioprio_set, ASK_SELF_OF},
	/* files by their names; what could be opened may be changed by its descriptor */
	{SYS_fchmodat, NO_PERM},
	{452, NO_PERM}, /* fchmodat2 */
	{SYS_fchownat, NO_PERM},
	{SYS_setxattr, NO_PERM},
	{SYS_lsetxattr, NO_PERM},
	{SYS_removexattr, NO_PERM},
	{SYS_lremovexattr, NO_PERM},
	{463, NO_PERM}, /* setxattrat */
	{466, NO_PERM}, /* removexattrat */
	/* shows what happens in any folder, and the user has but 128 of them */
	{SYS_inotify_init1, NO_CALL},
#if defined(__x86_64__)
	{SYS_chmod, NO_PERM},
	{SYS_chown, NO_PERM},
	{SYS_lchown, NO_PERM},
	{SYS_inotify_init, NO_CALL},
#endif
};

/*
 * A keeper is a program that is known, and so is what it does once its session begins: it reads and
 * writes what is open or lies beneath its own folders, and makes threads. What a guest hands over
 * may be any descriptor, so a socket is not to be connected either, whoever has made it.
 */
static const struct rule RULES_KEEPER[] = {
	/* programs and processes; threads are clone(2), with flags that can be seen */
	{SYS_execve, NO_PERM},
	{SYS_execveat, NO_PERM},
	{SYS_clone, ASK_THREAD},
	{SYS_unshare, NO_PERM},
	{SYS_mmap, ASK_CODE_2},
	{SYS_mprotect, ASK_CODE_2},
	{SYS_pkey_mprotect, ASK_CODE_2},
	/* sockets */
	{SYS_socket, NO_ACCESS},
	{SYS_connect, NO_ACCESS},
	{SYS_bind, NO_ACCESS},
	{SYS_listen, NO_ACCESS},
	{SYS_shmget, NO_PERM},
	{SYS_shmat, NO_PERM},
	{SYS_shmctl, NO_PERM},
	{SYS_semget, NO_PERM},
	{SYS_semop, NO_PERM},
	{SYS_semtimedop, NO_PERM},
	{SYS_semctl, NO_PERM},
	{SYS_msgget, NO_PERM},
	{SYS_msgsnd, NO_PERM},
	{SYS_msgrcv, NO_PERM},
	{SYS_msgctl, NO_PERM},
	{SYS_mq_open, NO_PERM},
	{SYS_mq_unlink, NO_PERM},
	/* other processes; abort(3) finds another way to die */
	{SYS_kill, NO_PERM},
	{SYS_tkill, NO_PERM},
	{SYS_tgkill, NO_PERM},
	{SYS_rt_sigqueueinfo, NO_PERM},
	{SYS_rt_tgsigqueueinfo, NO_PERM},
	{424, NO_PERM}, /* pidfd_send_signal */
	{434, NO_PERM}, /* pidfd_open */
	{SYS_prlimit64, ASK_SELF},
	{SYS_sched_setaffinity, ASK_SELF},
	{SYS_sched_setscheduler, ASK_SELF},
	{SYS_sched_setparam, ASK_SELF},
	{SYS_sched_setattr, ASK_SELF},
	{SYS_setpriority, ASK_SELF_OF},
	{SYS_ioprio_set, ASK_SELF_OF},
	/* rights; a root's file system ids change for a folder of another user's (files/tree.c) */
	{SYS_setuid, NO_PERM},
	{SYS_setgid, NO_PERM},
	{SYS_setreuid, NO_PERM},
	{SYS_setregid, NO_PERM},
	{SYS_setresuid, NO_PERM},
	{SYS_setresgid, NO_PERM},
	{SYS_setgroups, NO_PERM},
	{SYS_capset, NO_PERM},
	/* files by their names; 437 is openat2, by which it follows no path that a guest controls
	 */
	{437, YES},
	{SYS_fchmodat, NO_PERM},
	{452, NO_PERM}, /* fchmodat2 */
	{SYS_fchownat, NO_PERM},
	{SYS_setxattr, NO_PERM},
	{SYS_lsetxattr, NO_PERM},
	{SYS_removexattr, NO_PERM},
	{SYS_lremovexattr, NO_PERM},
	{463, NO_PERM}, /* setxattrat */
	{466, NO_PERM}, /* removexattrat */
#if defined(__x86_64__)
	{SYS_fork, NO_PERM},
	{SYS_vfork, NO_PERM},
	{SYS_chmod, NO_PERM},
	{SYS_chown, NO_PERM},
	{SYS_lchown, NO_PERM},
	{SYS_utime, NO_PERM},
	{SYS_utimes, NO_PERM},
	{SYS_futimesat, NO_PERM},
#endif
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void lay_out(enum answer answers[static NUMBERS], const struct rule *rules, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		assert(rules[i].number >= 0 && rules[i].number < NUMBERS);
		answers[rules[i].number] = rules[i].answer;
	}
}

void filter_rules(enum answer answers[static NUMBERS], enum filter_kind kind)
{
	static_assert(YES == 0, "what no rule names is allowed");
	memset(answers, 0, NUMBERS * sizeof(*answers));
	lay_out(answers, RULES, COUNT(RULES));
	if (kind == FILTER_DEGRADED)
		lay_out(answers, RULES_DEGRADED, COUNT(RULES_DEGRADED));
	if (kind == FILTER_KEEPER)
		lay_out(answers, RULES_KEEPER, COUNT(RULES_KEEPER));
	if (kind == FILTER_ZYGOTE)
		answers[SYS_setns] = YES;
}
