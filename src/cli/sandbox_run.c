/*
 * fumehood sandbox run: one program in a box, with nobody else about.
 *
 *	box ──> program ──> its end ──> the box is ended with all that is left in it ──> the rest of
 *	the output ──> its exit status
 *
 * What the kernel limits for each process, or for the box by a control group, it limits here too.
 * Where there is no control group, memory is looked at ten times a second, as a keeper does; so is
 * what a private workspace takes (sandbox_disk.h). Hosts are reached by a proxy (sandbox_net.h).
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/sandbox.h"
#include "cli/sandbox_disk.h"
#include "cli/sandbox_net.h"
#include "cli/sandbox_streams.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "sandbox/box.h"
#include "sandbox/proxy_variables.h"
#include "sandbox/report.h"

enum { EXIT_TIMEOUT = 124, EXIT_NOT_RUN = 126, EXIT_NOT_THERE = 127, EXIT_SIGNAL = 128 };
enum { WATCH_MS = 100 };

struct running {
	struct box *box;
	struct sandbox_net net;
	struct sandbox_disk disk;
	struct sandbox_streams streams;
	const struct policy *policy;
	int signal_fd;
	pid_t pid;        /* inside */
	int status;       /* as waitpid(2) gives it; -1: it runs */
	int64_t until_us; /* monotonic; INT64_MAX: no end */
	bool late;
	bool watched; /* memory, processor time, or the workspace */
	bool killed;  /* for one of these */
};

static void running_release(struct running *running)
{
	box_free(running->box);
	sandbox_disk_close(&running->disk);
	sandbox_net_close(&running->net);
	streams_close(&running->streams);
	if (running->signal_fd >= 0)
		close(running->signal_fd);
}

/* --- what it finds -------------------------------------------------------------------------- */

static size_t count_of(const char *const *strings)
{
	size_t count = 0;

	while (strings && strings[count])
		count++;
	return count;
}

/* Nothing of our own environment but what the policy names. */
struct variables {
	char **items; /* "NAME=value", NULL-terminated */
	size_t count;
};

static void variables_release(struct variables *variables)
{
	for (size_t i = 0; i < variables->count; i++)
		free(variables->items[i]);
	free(variables->items);
}

/* Sets one variable, in place of another of its name; takes the text. */
static void put_text(struct variables *variables, char *text)
{
	size_t len = strcspn(text, "=") + 1;
	size_t i = 0;

	while (i < variables->count && strncmp(variables->items[i], text, len) != 0)
		i++;
	if (i < variables->count) {
		free(variables->items[i]);
	} else {
		variables->count++;
		variables->items = mem_resize(variables->items, variables->count + 1,
					      sizeof(*variables->items));
		variables->items[variables->count] = NULL;
	}
	variables->items[i] = text;
}

static void put_variable(void *data, const char *name, const char *value)
{
	put_text(data, mem_format("%s=%s", name, value));
}

static void put_variables(const struct running *running, bool terminal,
			  struct variables *variables)
{
	const char *const *asked = running->policy->env;
	const char *type = getenv("TERM");

	put_variable(variables, "PATH",
		     "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	put_variable(variables, "LANG", "C.UTF-8");
	put_variable(variables, "USER", "user");
	put_variable(variables, "LOGNAME", "user");
	put_variable(variables, "HOME", box_workspace(running->box));
	put_variable(variables, "TMPDIR", running->policy->tmp ? running->policy->tmp : "/tmp");
	if (terminal && type)
		put_variable(variables, "TERM", type);
	if (running->net.port)
		proxy_variables(&running->net.hosts, running->net.port, put_variable, variables);
	for (size_t i = 0; asked && asked[i]; i++)
		put_text(variables, mem_string(asked[i]));
}

static const char *path_of(const char *const *envp)
{
	while (*envp && strncmp(*envp, "PATH=", 5) != 0)
		envp++;
	return *envp ? *envp + 5 : "";
}

/* --- starting ------------------------------------------------------------------------------- */

static int start_at(struct running *running, const char *path, const char *const *argv,
		    const char *const *envp, struct err *err)
{
	cleanup_free const char **words = mem_zalloc((count_of(argv) + 1) * sizeof(*words));

	for (size_t i = 0; argv[i]; i++)
		words[i] = i == 0 ? path : argv[i];
	return box_exec(running->box, words, envp, running->streams.given, 3, &running->pid, err);
}

/* As execvp(3), by the PATH of the program, inside. 0, or the exit status. */
static int start(struct running *running, const char *const *argv, const char *const *envp)
{
	struct err err = ERR_INIT, denied = ERR_INIT;
	const char *at = path_of(envp);

	if (strchr(argv[0], '/')) {
		if (start_at(running, argv[0], argv, envp, &err) == 0)
			return 0;
		say_err(&err);
		return err.sys == ENOENT || err.sys == ENOTDIR ? EXIT_NOT_THERE : EXIT_NOT_RUN;
	}
	while (*at) {
		size_t len = strcspn(at, ":");
		cleanup_free char *path = mem_format("%.*s/%s", (int)len, at, argv[0]);

		err = (struct err)ERR_INIT;
		if (len && start_at(running, path, argv, envp, &err) == 0)
			return 0;
		if (len && err.sys != ENOENT && err.sys != ENOTDIR)
			denied = err;
		at += len + (at[len] == ':');
	}
	if (denied.code != ERR_OK) {
		say_err(&denied);
		return EXIT_NOT_RUN;
	}
	say("%s is not there: of the host only system folders are visible, and what --read shows",
	    argv[0]);
	return EXIT_NOT_THERE;
}

/* The strongest box that can be had, no weaker than the floor. */
static struct box *build(struct sandbox_policy *made, struct err *err)
{
	struct err why = ERR_INIT;
	struct box *box = box_start(&made->policy, TIER_FULL, BOX_WITHOUT_ZYGOTE, &why);

	if (box || why.code != ERR_SANDBOX || made->policy.floor > TIER_DEGRADED) {
		*err = why;
		return box;
	}
	if (sandbox_policy_make_tmp(made, err) != 0)
		return NULL;
	box = box_start(&made->policy, TIER_DEGRADED, BOX_WITHOUT_ZYGOTE, err);
	if (box)
		say("runs in tier degraded: %s", why.text);
	else if (err->code == ERR_SANDBOX)
		report_no_tier(&why, err);
	return box;
}

/* --- while it runs -------------------------------------------------------------------------- */

/* Says which limits nobody holds here. */
static void look_at_limits(struct running *running)
{
	const struct policy *policy = running->policy;

	running->watched = policy->cpu_s_max > 0 || running->disk.runs ||
			   (policy->memory_bytes_max && !box_limit_how(running->box, BOX_MEMORY));
	if (policy->cpus > 0 && !box_limit_how(running->box, BOX_CPUS))
		say("processors cannot be limited here: no control group can be made");
}

static void kill_all(struct running *running)
{
	(void)box_kill_others(running->box, NULL, 0, NULL, NULL);
}

static void watch(struct running *running)
{
	const struct policy *policy = running->policy;
	struct box_usage usage;

	box_read_usage(running->box, &usage);
	if (policy->cpu_s_max > 0 && (double)usage.cpu_us > policy->cpu_s_max * 1e6) {
		say("killed: it has used %g s of processor time", policy->cpu_s_max);
		running->killed = true;
	} else if (policy->memory_bytes_max && !box_limit_how(running->box, BOX_MEMORY) &&
		   usage.memory_bytes > policy->memory_bytes_max) {
		say("killed: it has used more than %llu bytes of memory",
		    (unsigned long long)policy->memory_bytes_max);
		running->killed = true;
	} else if (sandbox_disk_over(&running->disk)) {
		say("killed: its workspace holds more than %llu bytes or %llu files",
		    (unsigned long long)policy->disk_bytes_max,
		    (unsigned long long)policy->disk_inodes_max);
		running->killed = true;
	}
	if (running->killed)
		kill_all(running);
}

/* Takes the ends of processes; ours among them ends the loop. */
static int take_ends(struct running *running, struct err *err)
{
	pid_t pid;
	int status, got;

	while ((got = box_next_exit(running->box, &pid, &status, err)) > 0) {
		if (pid == running->pid)
			running->status = status;
	}
	return got;
}

static int wait_ms(const struct running *running)
{
	int64_t left_us = running->until_us - clock_monotonic_us();
	int64_t left_ms = left_us <= 0 ? 0 : left_us / 1000 + 1;

	if (running->until_us == INT64_MAX)
		return running->watched ? WATCH_MS : -1;
	return (int)(running->watched && left_ms > WATCH_MS ? WATCH_MS
		     : left_ms > INT_MAX                    ? INT_MAX
							    : left_ms);
}

static int turn(struct running *running, struct err *err)
{
	struct pollfd fds[2 + STREAMS_POLL] = {
		{.fd = running->signal_fd, .events = POLLIN},
		{.fd = box_socket(running->box), .events = POLLIN},
	};
	int signal;

	streams_poll(&running->streams, fds + 2);
	if (poll(fds, sizeof(fds) / sizeof(*fds), wait_ms(running)) < 0)
		return errno == EINTR ? 0 : err_sys(err, "poll");
	while (fds[0].revents && (signal = signals_next(running->signal_fd)) != 0) {
		if (box_signal(running->box, running->pid, signal, err) != 0)
			return -1;
	}
	if (streams_carry(&running->streams, fds + 2, err) != 0)
		return -1;
	if (clock_monotonic_us() >= running->until_us && !running->late) {
		running->late = true;
		running->until_us = INT64_MAX;
		kill_all(running);
	}
	if (running->watched && !running->killed)
		watch(running);
	/* Also when the socket is silent: a kill takes reports with it. */
	return take_ends(running, err);
}

/* --- the whole ------------------------------------------------------------------------------ */

static void say_kills(const struct running *running)
{
	struct box_usage usage;

	box_read_usage(running->box, &usage);
	if (usage.memory_kills > 0)
		say("%llu %s killed for want of memory: the limit is %llu bytes",
		    (unsigned long long)usage.memory_kills,
		    usage.memory_kills == 1 ? "process was" : "processes were",
		    (unsigned long long)running->policy->memory_bytes_max);
}

static int exit_status(const struct running *running, double timeout_s)
{
	if (running->late) {
		say("killed after %g s", timeout_s);
		return EXIT_TIMEOUT;
	}
	return WIFSIGNALED(running->status) ? EXIT_SIGNAL + WTERMSIG(running->status)
					    : WEXITSTATUS(running->status);
}

/* The order matters: the proxy is forked while there is one thread and no pipe. */
static int prepare(struct running *running, const struct sandbox_options *options, struct err *err)
{
	const struct policy *policy = running->policy;

	if (sandbox_net_open(&running->net, running->box, policy->net, err) != 0 ||
	    streams_open(&running->streams, options->terminal, err) != 0)
		return -1;
	if (policy->workspace_private &&
	    sandbox_disk_open(&running->disk, policy->workspace, policy->disk_bytes_max,
			      policy->disk_inodes_max, err) != 0)
		return -1;
	look_at_limits(running);
	return 0;
}

static int run(struct running *running, const struct sandbox_options *options, struct err *err)
{
	__attribute__((cleanup(variables_release))) struct variables variables = {.items = NULL};
	int status;

	if (prepare(running, options, err) != 0)
		return say_err(err);
	put_variables(running, options->terminal, &variables);
	status = start(running, options->argv, (const char *const *)variables.items);
	if (status != 0)
		return status;
	streams_given(&running->streams);
	if (options->timeout_s > 0)
		running->until_us = clock_monotonic_us() + (int64_t)(options->timeout_s * 1e6);
	while (running->status < 0) {
		if (turn(running, err) != 0)
			return say_err(err);
	}
	say_kills(running);
	/* With it go what it has left running, and the last who could write. */
	box_free(running->box);
	running->box = NULL;
	if (streams_finish(&running->streams, err) != 0)
		return say_err(err);
	return exit_status(running, options->timeout_s);
}

int sandbox_run(const struct sandbox_options *options)
{
	cleanup_sandbox_policy struct sandbox_policy made = SANDBOX_POLICY_INIT;
	__attribute__((cleanup(running_release))) struct running running = {
		.signal_fd = -1,
		.status = -1,
		.until_us = INT64_MAX,
		.streams = SANDBOX_STREAMS_INIT,
		.net = SANDBOX_NET_INIT,
		.disk = SANDBOX_DISK_INIT,
	};
	struct err err = ERR_INIT;

	running.policy = &made.policy;
	if (sandbox_policy_make(&made, options, &err) != 0)
		return say_err(&err);
	running.signal_fd = signals_open(&err);
	if (running.signal_fd < 0)
		return say_err(&err);
	running.box = build(&made, &err);
	if (!running.box)
		return say_err(&err);
	return run(&running, options, &err);
}
